"""The pages of reference are those that the code gives; a key that nobody explains ends the generator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from tools import gen_reference
from tools.reference_keys import comments, groups, plain

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
BEFORE = """
from acceptd.cli import main
main._assemble("verify")
main._assemble("bundle")
from tools import gen_reference
print(gen_reference.commands_page(), end="")
"""


@pytest.mark.parametrize("name", gen_reference.PAGES)
def test_a_page_of_reference_is_up_to_date(name: str) -> None:
    text = (gen_reference.TARGET / f"{name}.md").read_text(encoding="utf-8")
    assert text == gen_reference.PAGES[name](), "run `make docs`"


class Inner(BaseModel):
    """What is within."""

    size: Annotated[int, Field(ge=1, le=9)]
    """How large."""


class Outer(BaseModel):
    """A whole file."""

    mode: Literal["a", "b"] = "a"
    many: list[Inner] = []
    named: dict[str, Inner] = {}
    one: Inner = Inner(size=3)
    silent: str | None = None


def test_every_key_has_its_path_type_default_and_meaning(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('# How: "a" or "b".\nmode = "a"\n\n# Nothing.\n\n# A comment on the table.\n[one]\nsize = 1\n')
    found = {key.path: key for group in groups(Outer, comments(file)) for key in group.keys}
    assert list(found) == ["mode", "silent", "many[].size", "named.<name>.size", "one.size"]
    assert found["mode"].meaning == 'How: "a" or "b".'
    assert (found["mode"].kind, found["mode"].default) == ("one of `a`, `b`", '`"a"`')
    assert (found["many[].size"].kind, found["many[].size"].default) == ("integer, 1 to 9", "required")
    assert (found["one.size"].meaning, found["one.size"].default) == ("How large.", "`3`")
    assert found["silent"].meaning == ""
    assert {group.path: group.about for group in groups(Outer, comments(file))}["one"] == "A comment on the table."


def test_a_key_that_nobody_explains_ends_the_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gen_reference.KEYS, "x", ("X", Outer, None))
    with pytest.raises(SystemExit, match="no docstring and no comment says what these mean: mode, silent"):
        gen_reference.keys_page("x")


def test_docstrings_become_markdown() -> None:
    assert plain("Of ``a|b``,\n see :class:`~acceptd.errors.LoaderError`.") == r"Of `a\|b`, see `LoaderError`."
    assert (
        gen_reference._markdown("Say:\n\n    run(``x``)\n\nDone.") == "Say:\n\n\n```python\nrun(`x`)\n```\n\nDone."
    )


def test_the_page_of_commands_does_not_depend_on_what_ran_before_in_this_process() -> None:
    """A command line registers the one command that it is about; another one later finds it there."""
    text = (gen_reference.TARGET / "commands.md").read_text(encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", BEFORE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, text), done.stderr
