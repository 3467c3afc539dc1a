"""The runner of the documentation's pages: what it does, and that a page which does not do what it shows fails."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tools import run_docs
from tools.docs_site import fetched, linked

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RUN = sorted([*(DOCS / "tutorials").glob("*.md"), *(DOCS / "howto").glob("*.md")])


def ran(page: str, tmp_path: Path) -> int:
    path, place = tmp_path / "page.md", tmp_path / "place"
    path.write_text(page, encoding="utf-8")
    place.mkdir()
    return run_docs.run_page(path, place, Path(sys.executable))


def console(*lines: str) -> str:
    return "\n".join(["```console", *lines, "```", ""])


def test_a_page_is_done_from_top_to_bottom_in_one_shell(tmp_path: Path) -> None:
    page = "\n".join([
        console("$ mkdir sub && cd sub && export WORD=kept", "$ sleep 60 &"),
        "```python title=\"deeper/say.py\"\nimport os\nprint(os.environ['WORD'])\n```\n",
        console("$ python deeper/say.py", "kept", "$ cat <<END", "> one", "> END", "one"),
        console("$ pwd; cat", "…/place/sub"),
    ])  # fmt: skip
    assert ran(page, tmp_path) == 6
    assert (tmp_path / "place" / "sub" / "deeper" / "say.py").exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["page.md", "place"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["$ true", "$ false"], "page.md:3: false\nended with 1"),
        (["$ echo one; echo two", "one"], "it printed:\none\ntwo"),
        (["$ echo one", "one", "two"], "the page shows:\none\ntwo"),
        (["$ echo one >&2", "two"], "it printed:\none"),
        (["$ if"], "ended with 2"),
        (["$ exit 0"], "ended the shell"),
    ],
)
def test_a_page_that_does_something_else_fails_at_its_line(lines: list[str], told: str, tmp_path: Path) -> None:
    with pytest.raises(run_docs.PageError, match=re.escape(told)):
        ran(console(*lines), tmp_path)


def test_a_command_that_never_ends_is_ended_and_so_is_all_that_it_started(tmp_path: Path) -> None:
    shell = run_docs.Shell(tmp_path, run_docs.environment(tmp_path, Path(sys.executable)))
    code, told = shell.run("sleep 1000 & echo $!")
    assert code == 0
    with pytest.raises(run_docs.PageError, match="did not end"):
        shell.run("cat /dev/zero > /dev/null", seconds=0.05)
    shell.close()
    assert not os.path.exists(f"/proc/{int(told)}") or b"Z" in Path(f"/proc/{int(told)}/stat").read_bytes()


def test_dots_stand_for_lines_and_for_text() -> None:
    assert run_docs.fits(("a", "…", "z"), "a\nb\nc\nz\n")
    assert run_docs.fits(("a", "…"), "a\n")
    assert run_docs.fits(("took … s, (1)",), "took 0.25 s, (1)\n")
    assert not run_docs.fits(("a", "…", "z"), "a\nb\n")
    assert not run_docs.fits(("took … s",), "took 0.25 s or so\n")
    assert not run_docs.fits(("one.",), "one!\n")


def test_a_block_that_is_neither_run_nor_to_be_read_is_refused() -> None:
    with pytest.raises(run_docs.PageError, match="line 1: a block of the kind 'bash'"):
        run_docs.steps("```bash\nls\n```\n")
    with pytest.raises(run_docs.PageError, match="line 2"):
        run_docs.steps(console("no command", "$ ls"))
    assert run_docs.steps("```text\n$ ls\n```\n") == []


@pytest.mark.parametrize("page", RUN, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_tutorial_and_how_to_can_be_run(page: Path) -> None:
    # They are run by `make docs-run`, one of them by tests/acceptance/test_docs_pages.py too.
    assert any(isinstance(step, run_docs.Command) for step in run_docs.steps(page.read_text(encoding="utf-8")))


def test_every_page_is_found_from_the_navigation_and_every_entry_is_there() -> None:
    entries = re.findall(r"^ +- (?:[^\n:]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if path.parent.name != "decisions"}
    assert len(entries) == len(set(entries))
    assert set(entries) == pages, "a page is missing in nav of mkdocs.yml, or an entry has none"


def test_a_page_that_is_named_is_a_link_on_the_site_and_code_stays_code() -> None:
    known = frozenset({"loader.md", "howto/ci.md", "bundle.schema.json"})
    assert linked("see `docs/loader.md`", "howto/ci.md", known) == "see [`docs/loader.md`](../loader.md)"
    assert linked("`loader.md`", "index.md", known) == "[`loader.md`](loader.md)"
    assert (
        linked("`docs/bundle.schema.json`", "loader.md", known)
        == "[`docs/bundle.schema.json`](bundle.schema.json)"
    )
    for text in ("`loader.md`", "[`loader.md`](loader.md)", "`other.md`", "```text\n`loader.md`\n```\n"):
        assert linked(text, "loader.md", known) == text


def test_what_a_page_of_the_site_would_fetch_elsewhere_is_found_and_a_link_is_not() -> None:
    wrong = [
        '<script defer src="https://cdn.example/x.js">', '<img alt="" src="//cdn.example/x.png">',
        '<link rel="stylesheet" href="https://fonts.example/css">',
    ]  # fmt: skip
    good = '<a href="https://example.com">x</a><script src="assets/x.js"></script><link rel="icon" href="i.png">'
    assert fetched("\n".join([*wrong, good])) == [
        one if one.startswith("<link") else one.removesuffix(">") for one in wrong
    ]
