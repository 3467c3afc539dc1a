"""A worker that lies, in a real fleet: what a stranger signs, or was said of another bundle, decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from acceptd.config import load_settings
from acceptd.evidence import Sealed
from acceptd.fleet import rows
from acceptd.fleet.examined import Examined
from acceptd.fleet.host import this_node
from acceptd.fleet.order import Order
from acceptd.fleet.rows import EvidenceRow
from acceptd.fleet.statement import sign_evidence
from acceptd.fleet.tasks import Tasks
from acceptd.objectstore.objects import open_objects
from acceptd.policy.manifest import Manifest
from acceptd.record.entry import utc_now
from acceptd.record.node_key import node_signer
from acceptd.record.queue import Submission
from examples import evidence_classifier as classifier
from tests.fleet.postgres import OWNER, Server
from tests.fleet.roles_world import TEAM, Fleet

pytestmark = pytest.mark.acceptance

SLOW = 'schema = 1\nname = "slow"\nproviders = ["CPUExecutionProvider"]\noptimisation = "disable"\n'


class Several(Fleet):
    """A fleet whose policy has two required profiles."""

    def write_policy(self) -> None:
        super().write_policy()
        place = self.policies / "fleet.toml"
        place.write_text('profiles = ["cpu", "slow"]\n' + place.read_text())


@pytest.fixture(scope="module")
def fleet(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two required profiles, each examined by another node; the tests say which of the workers run."""
    made = Several(tmp_path_factory.mktemp("fleet"), postgres, profiles={"slow": SLOW})
    made.node("promoter", "promoter")
    made.node("intake", "intake")
    made.node("w1", "worker", profiles=("cpu",))
    made.node("w2", "worker", profiles=("slow",))
    made.node("stranger", "worker", trusted=False)
    made.start("promoter", "intake", "w2")
    yield made
    made.close()


def beside(fleet: Fleet, name: str) -> None:
    """Let one more worker run beside ``w2``, or none."""
    for other in ("w1", "stranger"):
        if other != name and other in fleet.running:
            fleet.stop(other)
    if name and name not in fleet.running:
        fleet.start(name)


def wrong(fleet: Fleet) -> str:
    """Drop a bundle whose model does not give its own goldens."""
    made = classifier.write_bundle(fleet.root / "made" / "wrong", model_id=f"{TEAM}/wrong")
    variant = classifier.Variant()
    bias = tuple(one + 0.4 * (index == 0) for index, one in enumerate(variant.bias))
    classifier.write_goldens(made, replace(variant, bias=bias), count=7)
    return fleet.drop(made, "wrong")


def ordered(fleet: Fleet, name: str, least: int = 1) -> tuple[Submission, Order]:
    """Wait for an order of a drop, of this round or a later one."""
    found: list[tuple[Submission, Order]] = []

    def there() -> bool:
        for row in fleet.rows():
            if row.name == name and row.data.get("order"):
                order = Order.told(row.data["order"])
                found.append((row, order))
                return order.round >= least
        return False

    fleet.until(there, f"order {least} of {name}")
    return found[-1]


def evidence(fleet: Fleet, submission: str, profile: str) -> tuple[EvidenceRow, Examined]:
    """What a true worker handed in."""
    with fleet.ledger() as ledger:
        (row,) = [one for one in rows.of(ledger, submission) if one.profile == profile]
    with open_objects(load_settings(fleet.state("promoter")).objects, fleet.state("promoter")) as objects:
        return row, Examined.from_bytes(objects.get_blob(row.evidence_digest, 1 << 26))


def hand_in(fleet: Fleet, who: str, row: EvidenceRow, model: str, data: bytes = b"") -> None:
    """Insert evidence, store its bytes, and ask for a decision as a worker does.

    Without that it would lie there until the promoter hears of the other worker's: before or after, by chance. As
    the owner of the tables: a worker's login does so for what it holds alone (test_logins).
    """
    if data:
        with open_objects(load_settings(fleet.state(who)).objects, fleet.state(who)) as objects:
            objects.put_blob(data)
    with fleet.owned() as ledger:
        assert rows.put(ledger, row)
    with Tasks(fleet.server.url(fleet.database, OWNER)) as tasks:
        tasks.decide(row.submission, model, team=TEAM)


def forged(
    fleet: Fleet, who: str, name: str, row: Submission, order: Order, true: Examined
) -> tuple[EvidenceRow, str, bytes]:
    """Evidence that all went well, of a node that goes by ``name`` and signs with the key of ``who``."""
    assert true.manifest is not None
    document = true.manifest.model_dump(mode="json", by_alias=True)
    document["bundle"]["id"] = order.model
    jobs = [
        one if one.manifest is None else one.model_copy(update={"manifest": _renamed(one.manifest, order.model)})
        for one in true.submission.jobs
    ]
    sealed = Sealed.model_validate(row.data["sealed"])
    changes: dict[str, Any] = {"id": row.id, "sealed": sealed, "prior": None, "jobs": jobs}
    lie = true.model_copy(
        update={
            "manifest": Manifest.model_validate(document, strict=False),
            "submission": true.submission.model_copy(update=changes),
        }
    )
    signer = node_signer(fleet.state(who))
    now = utc_now()
    envelope, data = sign_evidence(signer, this_node(name), order, "cpu", lie, started=now, ended=now)
    made = EvidenceRow(row.id, order.round, "cpu", name, signer.key_id, envelope, sha256(data).hexdigest())
    return made, order.model, data


def _renamed(manifest: dict[str, Any], model: str) -> dict[str, Any]:
    return {**manifest, "bundle": {**manifest["bundle"], "id": model}}


def test_lies_of_strangers_cost_orders_and_decide_nothing_and_one_liar_of_two_promotes_nothing(
    fleet: Fleet,
) -> None:
    beside(fleet, "w1")
    good = fleet.accepted("good")
    before, true = evidence(fleet, good["submission"], "cpu")
    beside(fleet, "")
    name = wrong(fleet)
    row, order = ordered(fleet, name)
    # Evidence of another submission, as the true worker signed it: it was not said of this one.
    hand_in(fleet, "stranger", replace(before, submission=row.id, round=order.round), order.model)
    row, order = ordered(fleet, name, order.round + 1)
    # Evidence for this very order, by a key that the policy does not name, in its own name and in another's.
    for claimed in ("stranger", "w1"):
        hand_in(fleet, "stranger", *forged(fleet, "stranger", claimed, row, order, true))
        row, order = ordered(fleet, name, order.round + 1)
    told = [one for one in fleet.running["promoter"].events if one.get("event") == "evidence refused"]
    assert len(told) >= 3
    assert any("another submission" in one["reason"] for one in told)
    assert any("a key that the policy names for no node" in one["reason"] for one in told)
    assert fleet.verdicts()[row.id] == 0

    # A worker that is trusted with `cpu` lies about all of it; another one examines under `slow`, and is believed.
    hand_in(fleet, "w1", *forged(fleet, "w1", "w1", row, order, true))
    report = fleet.verdict(name)
    assert report["verdict"] != "accepted", report["reason"]
    assert "release" not in report
    fleet.whole()
    with fleet.ledger() as ledger:
        entry = next(ledger.entries(kind="verdict", submission=good["submission"]))
    assert {(one["profile"], one["node"]) for one in entry.body["nodes"]} == {("cpu", "w1"), ("slow", "w2")}
    assert {one["key_id"] for one in entry.body["nodes"]} == {
        node_signer(fleet.state(name)).key_id for name in ("w1", "w2")
    }


def test_a_worker_that_nobody_trusts_examines_nothing_and_costs_no_order(fleet: Fleet) -> None:
    beside(fleet, "stranger")
    name = fleet.put("waits", model_id=f"{TEAM}/waits")
    row, order = ordered(fleet, name)
    fleet.until(
        lambda: fleet.server.execute(
            "SELECT 1 FROM fleet_nodes WHERE name = 'stranger' AND told LIKE '%trusts this node with no profile%'",
            database=fleet.database,
        ),
        "the stranger says why it does not examine",
    )
    assert order.round == 1
    beside(fleet, "w1")
    assert fleet.verdict(name)["verdict"] == "accepted"
    with fleet.ledger() as ledger:
        assert {one.node for one in rows.of(ledger, row.id)} == {"w1", "w2"}
    fleet.whole()
