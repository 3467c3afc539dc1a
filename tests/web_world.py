"""A state directory with something on every page of the console, hostile names among it. No daemon, no sandbox."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acceptd.config import Paths
from acceptd.record import checkpoint
from acceptd.record.canonical import digest, plain
from acceptd.record.keys import load_signer
from acceptd.record.keystore import own_history
from acceptd.record.queue import Queue
from acceptd.review import keys as own
from tests.release_world import MODEL, World
from tests.report_world import HOSTILE, report
from tests.review_world import held

ROOT = Path(__file__).resolve().parent.parent
NASTY = "".join(text for name, text in HOSTILE.items() if name not in {"very long", "lone surrogates", "empty"})
"""Every hostile text at once, as one name."""


OBSERVED = "20261127t120000000-0000beef"


@dataclass(frozen=True)
class WebWorld:
    """The instance, and its submissions by what they are for."""

    world: World
    held: str
    hostile: str
    released: str
    """The digest that is current."""

    @property
    def state(self) -> Path:
        return self.world.state

    def key(self, name: str) -> Path:
        """A reviewer's private key."""
        return self.world.root / f"{name}.pem"


def make(root: Path, *, more: int = 60) -> WebWorld:
    """Make the instance below ``root``; ``more`` accepted submissions of one model beside the others."""
    world = World(root)
    for path, mode in Paths(world.state).directories():
        path.mkdir(mode=mode, exist_ok=True)
    policies = shutil.copytree(ROOT / "policies", root / "policies")
    settings = f"policy = 'demo'\npolicies = {json.dumps(str(policies))}\n"
    (world.state / "acceptd.toml").write_text(settings)
    (policies / "reviewers.toml").write_text("".join(_reviewer(root, name) for name in ("ada", "ben")))
    for number in range(more):
        _judged(world, f"20261101t12{number // 60:02d}{number % 60:02d}000-{number:08x}", "accepted", "plain")
    hostile = "20261128t120000000-0000dead"
    _judged(world, hostile, "rejected", NASTY)
    _judged(world, OBSERVED, "rejected", NASTY, observed=True)
    first = world.released("1.0.0")
    second = world.released("2.0.0")
    world.revoke(first.bundle_digest)
    world.ledger.append("frozen", {"channel": "canary", "reason": NASTY[:1900], "by": "root"})
    _, waiting = held(world)
    checkpoint.write(
        world.state, world.ledger, load_signer(world.state, "ledger"), own_history(world.state, world.ledger)
    )
    return WebWorld(world, waiting, hostile, second.bundle_digest)


def _reviewer(root: Path, name: str) -> str:
    signer = own.make(root / f"{name}.pem")
    return f'[[reviewers]]\nname = "{name}"\nteam = "safety"\nkey = "{own.public_text(signer)}"\n'


def _judged(world: World, submission: str, verdict: str, text: str, *, observed: bool = False) -> None:
    """Put a submission with its report on record, as the daemon leaves it; ``text`` is what a team may choose."""
    seen = {"observed": True, "drop": text} if observed else {}
    model = None if observed else MODEL  # nobody could read its manifest: it goes by its drop's name
    queue = Queue(world.ledger)
    queue.add(
        submission, team="mosaic", name=text, path="/p", kind="directory", model=model, bundle_digest="12" * 32
    )
    document: dict[str, Any] = plain(report(text, verdict=verdict, submission=submission, bundle_id=model))
    if verdict == "accepted":
        document["findings"] = []
    findings = [{key: one[key] for key in _KEYS} for one in document["findings"]]
    body = {
        "verdict": verdict, "judged_at": f"2026-11-{submission[6:8]}T12:00:00Z", "policy": "demo",
        "reason": document["reason"],
        "findings": findings, "team": "mosaic", "model": model, "bundle_digest": "12" * 32,
        "policy_digest": "34" * 32, "contract_digest": None, "profile_digest": "ef" * 32, "profiles_digest": None,
        "reviewer_findings": {"count": 0, "digest": digest([])}, **seen,
    }  # fmt: skip
    world.ledger.append("verdict", body, submission=submission)
    queue.advance(submission, "done", verdict=verdict, document=document | seen, **seen)


_KEYS = ("code", "severity", "audience", "stage", "where", "message", "evidence", "count")


class Visit:
    """Somebody's requests to a console, without a network; the extra must be there."""

    def __init__(self, world: WebWorld, https: bool = False) -> None:
        from starlette.testclient import TestClient

        from acceptd.web.app import build
        from acceptd.web.guard import Place
        from acceptd.web.house import House
        from acceptd.web.session import Sessions

        self.clock = 0.0
        self.told: list[str] = []
        self.sessions = Sessions(told=self.told.append, clock=lambda: self.clock)
        self.house = House.open(world.state)
        place = Place(frozenset({"console.test:8460"}), https=https)
        self.client = TestClient(
            build(self.house, self.sessions, place),
            base_url=f"http{'s' if https else ''}://console.test:8460",
            follow_redirects=False,
            raise_server_exceptions=False,
        )

    def enter(self) -> None:
        """Begin a session, as the browser does from the printed address."""
        answer = self.post("/enter", token=self.sessions.token)
        assert answer.status_code == 303, answer.text

    def get(self, address: str, **headers: str) -> Any:
        return self.client.get(address, headers=headers)

    def post(self, address: str, site: str = "same-origin", files: Any = None, **fields: str) -> Any:
        headers = {"sec-fetch-site": site, "origin": "null"}
        return self.client.post(address, data=fields, files=files, headers=headers)

    @property
    def word(self) -> str:
        """What this session's forms carry."""
        return str(self.sessions.word(self.client.cookies["acceptd"]))


@contextmanager
def visit(world: WebWorld, https: bool = False) -> Iterator[Visit]:
    """Yield a visitor without a session."""
    made = Visit(world, https)
    try:
        yield made
    finally:
        made.client.close()
        made.house.ledger.close()


def addresses(world: WebWorld) -> dict[str, str]:
    """Return every page with something on it, by name."""
    return {
        "queue": "/",
        "held submission": f"/submissions/{world.held}",
        "hostile submission": f"/submissions/{world.hostile}",
        "decide": f"/submissions/{world.held}/decide",
        "observed submission": f"/submissions/{OBSERVED}",
        "portfolio": "/portfolio",
        "observe": "/observe",
        "models": "/models",
        "model": f"/models/{MODEL}",
        "releases": "/releases",
        "history of a channel": f"/releases/{MODEL}/production",
        "bundle": f"/releases/digest/{world.released}",
        "revoke": f"/releases/digest/{world.released}/revoke",
        "ledger": "/ledger",
        "frozen entry": "/ledger?kind=frozen",
        "entry of a verdict": "/ledger/61",
        "entry of a hold": "/ledger/70",
        "replay": "/replay?policy=strict",
        "no such page": "/nothing",
    }
