"""``acceptd release export`` as docs/exports.md shows it, and the settings that stand there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from acceptd.config import Paths, Settings
from tests import commands
from tests.export_world import SERVABLE
from tests.release_world import World

pytestmark = pytest.mark.unit

PAGE = (Path(__file__).parents[2] / "docs/exports.md").read_text("utf-8")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    for path, mode in Paths(made.state).directories():
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    for name in ("models", "triton"):
        (tmp_path / name).mkdir()
    yield made
    made.close()


def run(world: World, text: str) -> subprocess.CompletedProcess[str]:
    words = shlex.split(text)[1:]
    place = {"/srv": str(world.root), "/etc/acceptd": str(world.state)}
    words = [re.sub("^(/srv|/etc/acceptd)", lambda found: place[found[1]], word) for word in words]
    return commands.run(*words, "--state", str(world.state))


def shown(*, bucket: bool = False) -> list[str]:
    """Return the commands of the page; those of a bucket are run by tests/fleet, which has a server."""
    found = re.findall(r"^\$ (acceptd release export .*)$", PAGE, re.MULTILINE)
    return [one for one in found if ("s3://" in one) == bucket]


def test_the_commands_of_the_page_work(world: World) -> None:
    world.released(manifest=SERVABLE)
    for text in shown():
        done = run(world, text)
        assert done.returncode == 0, done.stderr
        assert all(len(line) <= 80 for line in done.stderr.splitlines())
    report = json.loads(done.stdout)
    assert [one["number"] for one in report["verified"]] == [1]
    (world.root / "models/stranger").write_bytes(b"")
    done = run(world, shown()[2])
    assert done.returncode == 5
    assert "stranger: it was never exported" in done.stdout


def test_wrong_words_are_told_with_the_remedy(world: World) -> None:
    for words, said in (
        ("acceptd release export mosaic/none --to /srv/models", "has no release on production"),
        ("acceptd release export mosaic/none", "say where to export to"),
        ("acceptd release export verify /srv/models", "verify takes a place and --keys"),
        ("acceptd release export x --to /srv/models", "no model id"),
        ("acceptd release export a/b --to /srv/models --kind tar", "plain and triton"),
    ):
        done = run(world, words)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    world.released()  # its manifest declares no output
    done = run(world, "acceptd release export mosaic/evidence-disposition --to /srv/triton --kind triton")
    assert (done.returncode, "declares no output" in done.stdout) == (5, True)


def settings(text: str) -> Settings:
    return Settings.model_validate(tomllib.loads(text))


def test_the_settings_of_the_page_are_settings() -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    found = settings(text)
    assert [one.kind for one in found.exports] == ["plain", "triton", "plain"]
    assert found.hooks[0].user == "deploy"
    again = tomllib.loads(text)
    said = {*again["exports"][0], *again["exports"][2]}
    for table, model in ((said, found.exports[0]), (again["hooks"][0], found.hooks[0])):
        assert set(table) == set(type(model).model_fields)


EXPORT = '[[exports]]\nname = "{}"\nkind = "{}"\ndirectory = "{}"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (EXPORT.format("a", "plain", "relative"), "no absolute path"),
        (EXPORT.format("a", "plain", "/a") * 2, "two have the name"),
        (EXPORT.format("a", "plain", "/a") + EXPORT.format("b", "plain", "/a/b"), "lie in one another"),
        (EXPORT.format("a", "triton", "/a") + 'channels = ["a", "b"]\n', "one channel"),
        (EXPORT.format("a", "zip", "/a"), "plain"),
        ('[[hooks]]\nname = "a"\ncommand = ["true"]\n', "no absolute path"),
        ('[[hooks]]\nname = "a"\ncommand = []\n', "at least 1"),
    ],
)
def test_nonsense_in_the_settings_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        settings(text)
