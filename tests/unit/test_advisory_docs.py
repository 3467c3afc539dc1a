"""The list and the commands that docs/reacceptance.md shows are real."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from acceptd.advisories.document import read
from acceptd.config import Paths
from acceptd.review.keys import make, public_text
from tests import commands
from tests.release_world import World

pytestmark = pytest.mark.unit

PAGE = (Path(__file__).parents[2] / "docs/reacceptance.md").read_text("utf-8")


def test_the_commands_of_the_page_work_on_its_list(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    listed = json.loads(text)
    read(listed)
    (tmp_path / "list.json").write_text(json.dumps(listed | {"expires_at": "2099-01-01T00:00:00Z"}))
    ada = make(tmp_path / "ada.pem")
    world = World(tmp_path)
    for path, mode in Paths(world.state).directories():
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "reviewers.toml").write_text(
        f'schema = 1\n[[reviewers]]\nname = "ada"\nteam = "security"\nkey = "{public_text(ada)}"\n'
    )
    (world.state / "acceptd.toml").write_text(f"policies = {json.dumps(str(policies))}\n")
    world.released()  # its acceptance left no evidence
    codes = []
    for line in re.findall(r"^\$ (acceptd advisory .*)$", PAGE, re.MULTILINE):
        words = [str(tmp_path / one) if "." in one else one for one in shlex.split(line)[1:]]
        place = () if "sign" in words else ("--state", str(world.state))
        done = commands.run(*words, *place)
        codes.append(done.returncode)
    assert codes == [0, 0, 0, 4], done.stderr
    assert json.loads(done.stdout)["releases"][0]["status"] == "unknown"
    again = commands.run("advisory", "install", str(tmp_path / "list.signed"), "--state", str(world.state))
    assert (again.returncode, "does not replace 7" in again.stderr) == (2, True)
    world.close()
