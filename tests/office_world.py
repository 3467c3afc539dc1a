"""An instance with two releases and what people's commands need, and those commands themselves."""

from __future__ import annotations

import json
import shutil
from copy import copy
from pathlib import Path
from typing import Any

from acceptd.config import Paths
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.release.model import SessionOptions
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys
from tests import called
from tests.release_world import MODEL, World
from tests.review_world import PEOPLE

POLICY = """schema = 1
name = "office"
[approvals]
break_glass = true
[channels.canary]
automatic = true
[channels.late]
automatic = false
approvals = 1
"""


class OfficeWorld(World):
    """Production has 1.0.0 and 2.0.0; 3.0.0 is accepted and waits to be promoted by hand."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        for path, mode in Paths(self.state).directories():
            path.mkdir(mode=mode, parents=True, exist_ok=True)
        policies = root / "policies"
        policies.mkdir(mode=0o755)
        ada = PEOPLE.reviewers[0]
        rows = f'schema = 1\n[[reviewers]]\nname = "ada"\nteam = "security"\nkey = "{ada.key}"\n'
        for name, text in (("office.toml", POLICY), ("reviewers.toml", rows)):
            (policies / name).write_text(text, encoding="utf-8")
            (policies / name).chmod(0o644)
        self.settle_in()
        self.first, self.second = self.released("1.0.0"), self.released("2.0.0")
        self.waiting = self.accepted("3.0.0")
        self.queued("sub-3", self.waiting.digest, manifest=self.waiting.manifest)

    def settle_in(self) -> None:
        """Write the settings: this instance's own policies."""
        lines = f'policy = "office"\npolicies = {json.dumps(str(self.root / "policies"))}\n'
        (self.state / "acceptd.toml").write_text(lines, encoding="utf-8")

    def queued(self, submission: str, digest: str, *, verdict: str = "accepted", **more: Any) -> None:
        """Put an ended submission into the queue."""
        queue = Queue(self.ledger)
        queue.add(
            submission, team="mosaic", name="d", path="/p", kind="directory", bundle_digest=digest, model=MODEL
        )
        queue.advance(
            submission,
            "done",
            verdict=verdict,
            options=SessionOptions().model_dump(mode="json"),
            profiles=[],
            **more,
        )

    def copied(self, root: Path) -> OfficeWorld:
        """Return a closed world's copy below ``root``, opened."""
        made = copy(self)
        made.root, made.state = root, root / "state"
        shutil.copytree(self.root, root, symlinks=True, dirs_exist_ok=True)
        made.terms = Terms(valid_seconds=3600, clock=lambda: made.now)
        made.settle_in()
        made.ledger = Ledger.open(made.state)
        made.keys = ReleaseKeys.load(made.state, made.ledger)
        return made

    def said(self, *words: str, code: int = 0) -> str:
        """Run one command to its documented exit code; return standard output, or the error where it is no 0."""
        done = called.run(*words, "--state", str(self.state))
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stderr if code else done.stdout

    def refused(self, *words: str, code: int = 2) -> tuple[str, str]:
        """Run what is refused: nothing is on record then. Return the error and its remedy, a line each."""
        size = self.ledger.tree().size
        lines = self.said(*words, code=code).splitlines()
        assert self.ledger.tree().size == size, words
        assert len(lines) <= 2, lines
        error, remedy = [*lines, ""][:2]
        assert error.startswith("acceptd: "), lines
        return error.removeprefix("acceptd: "), remedy.removeprefix("  → ")
