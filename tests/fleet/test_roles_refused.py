"""Who may not what: nodes with too much power do not start; what is forged in the record counts for nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator

import pytest

from acceptd.fleet.order import Order
from acceptd.fleet.rows import EvidenceRow, put
from acceptd.record.node_key import node_signer
from acceptd.record.queue import Queue, Submission
from acceptd.release.book import read_book
from tests.fleet.postgres import Server
from tests.fleet.roles_world import TEAM, Fleet

pytestmark = pytest.mark.hostile


@pytest.fixture(scope="module")
def fleet(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("fleet"), postgres)
    for name, role in (("promoter", "promoter"), ("intake", "intake"), ("w1", "worker")):
        made.node(name, role)  # type: ignore[arg-type]
    made.start("promoter", "intake")
    yield made
    made.close()


def refusal(fleet: Fleet, name: str, *words: str) -> str:
    """Return the last words of a node that does not start."""
    one = fleet.launch(name, *words)
    fleet.until(one.ended, f"{name} ends")
    del fleet.running[name]
    assert one.code == 2, one.tail()
    return " ".join(one.tail(600).split())


@pytest.mark.parametrize(("name", "key"), [("intake", "release"), ("w1", "ledger"), ("w1", "revocation")])
def test_a_node_that_holds_a_key_of_the_promoters_does_not_start(fleet: Fleet, name: str, key: str) -> None:
    spare = fleet.root / f"spare-{name}-{key}"
    shutil.copytree(fleet.state(name), spare)
    shutil.copy(fleet.state("promoter") / "keys" / f"{key}.pem", spare / "keys")
    words = refusal(fleet, spare.name)
    assert f"holds the {key} key, which is the promoter's alone" in words
    assert "acceptd init --role" in words


def test_a_key_behind_a_command_is_a_key_too(fleet: Fleet) -> None:
    spare = fleet.root / "spare-command"
    shutil.copytree(fleet.state("w1"), spare)
    with (spare / "acceptd.toml").open("a") as file:
        file.write('[keys.release]\ncommand = ["/bin/true"]\n')
    assert "holds the release key" in refusal(fleet, spare.name)


def test_a_promoter_without_keys_and_a_worker_without_one_do_not_start(fleet: Fleet) -> None:
    spare = fleet.root / "spare-unsigned"
    shutil.copytree(fleet.state("promoter"), spare, symlinks=True)
    (spare / "daemon.lock").unlink()
    (spare / "keys" / "ledger.pem").unlink()
    assert "the promoter needs the ledger key" in refusal(fleet, spare.name)
    spare = fleet.root / "spare-keyless"
    shutil.copytree(fleet.state("w1"), spare)
    (spare / "keys" / "node.pem").unlink()
    assert "this node has no key" in refusal(fleet, spare.name)


def test_a_second_promoter_is_refused_while_the_first_one_works(fleet: Fleet) -> None:
    spare = fleet.root / "spare-promoter"
    shutil.copytree(fleet.state("promoter"), spare, symlinks=True)
    (spare / "daemon.lock").unlink()
    assert "another promoter works on this record" in refusal(fleet, spare.name)
    assert not fleet.running["promoter"].ended()


def test_a_login_that_can_do_more_than_its_role_is_told_of(fleet: Fleet) -> None:
    spare = fleet.root / "spare-owner"
    shutil.copytree(fleet.state("w1"), spare)
    text = (spare / "acceptd.toml").read_text()
    (spare / "acceptd.toml").write_text(text.replace(fleet.login("w1", "worker"), "acceptd"))
    one = fleet.launch(spare.name)
    one.ready()
    assert one.said("the database login may do too much", may="append to the ledger and change submissions")
    fleet.kill(spare.name)


@pytest.mark.parametrize(
    ("name", "role", "word"),
    [
        ("intake", "acceptd_worker", "bring submissions in"),
        ("w1", "acceptd_reviewer", "add evidence"),
        ("w1", "acceptd_intake", "add evidence"),
    ],
)
def test_a_node_whose_login_cannot_do_its_work_does_not_start(
    fleet: Fleet, name: str, role: str, word: str
) -> None:
    spare = fleet.root / f"spare-{name}-{role}"
    shutil.copytree(fleet.state(name), spare)
    fleet.server.execute(f'CREATE ROLE "{spare.name}" LOGIN IN ROLE {role}')
    text = (spare / "acceptd.toml").read_text()
    own = fleet.login(name, "intake" if name == "intake" else "worker")
    (spare / "acceptd.toml").write_text(text.replace(own, spare.name))
    words = refusal(fleet, spare.name)
    assert f"the login '{spare.name}' may not {word}" in words
    assert "acceptd fleet enroll" in words


@pytest.mark.parametrize("name", ["intake", "w1"])
def test_a_node_that_names_no_object_store_does_not_start_with_one_of_its_own(fleet: Fleet, name: str) -> None:
    spare = fleet.root / f"spare-{name}-objects"
    shutil.copytree(fleet.state(name), spare)
    text = (spare / "acceptd.toml").read_text()
    (spare / "acceptd.toml").write_text(text.replace(f'url = "{fleet.objects}"', ""))
    words = refusal(fleet, spare.name)
    assert "need one object store" in words
    assert "[objects]" in words


def test_a_promoter_with_a_workers_login_does_not_start(fleet: Fleet) -> None:
    spare = fleet.root / "spare-powerless"
    shutil.copytree(fleet.state("promoter"), spare, symlinks=True)
    (spare / "daemon.lock").unlink()
    text = (spare / "acceptd.toml").read_text()
    (spare / "acceptd.toml").write_text(
        text.replace(fleet.login("promoter", "promoter"), fleet.login("w1", "worker"))
    )
    assert "may not append to the ledger" in refusal(fleet, spare.name)


def ordered(fleet: Fleet, name: str) -> tuple[Submission, Order]:
    """Return a drop's row and its order, once it is ordered."""
    found: list[Submission] = []

    def there() -> bool:
        found[:] = [row for row in fleet.rows() if row.name == name and row.data.get("order")]
        return bool(found)

    fleet.until(there, f"{name} is ordered")
    return found[0], Order.told(found[0].data["order"])


def test_rows_that_were_forged_count_for_nothing_and_an_honest_worker_goes_on(fleet: Fleet) -> None:
    """Rubbish, and an order that nobody signed: then the worker comes."""
    fleet.put("honest", model_id=f"{TEAM}/honest")
    row, order = ordered(fleet, "honest")
    digest = hashlib.sha256(b"nothing").hexdigest()
    with fleet.owned() as ledger:  # a worker's login does so for what it holds alone (test_logins)
        for number, text in enumerate(("", "{}", "[" * 5000, "x" * 262_144, json.dumps({"payload": "AAAA"}))):
            put(ledger, EvidenceRow(row.id, order.round, "cpu", f"ghost-{number}", "k", text, digest))
    with fleet.ledger() as ledger:  # who may write submissions, an intake, changes the order to suit himself
        forged = order.model_copy(update={"policy": "00" * 32}).signed(node_signer(fleet.state("intake")))
        Queue(ledger).advance(row.id, "sealed", order=forged)
    fleet.start("w1")
    report = fleet.verdict("honest")
    fleet.stop("w1")
    assert report["verdict"] == "accepted", report["reason"]
    fleet.whole()


def test_a_drop_whose_owner_was_changed_in_the_record_waits_and_is_judged_for_nobody(fleet: Fleet) -> None:
    fleet.running["promoter"].pause()
    fleet.put("moved", model_id=f"{TEAM}/moved")
    fleet.bell.until(lambda: bool(_sealed(fleet, "moved")), "it is sealed")
    uid = _sealed(fleet, "moved")[0].uid
    fleet.server.execute("UPDATE submissions SET uid = 4242 WHERE name = 'moved'", database=fleet.database)
    fleet.running["promoter"].resume()
    fleet.until(lambda: fleet.running["promoter"].said("waits for the operator") > 0, "the promoter says so")
    (row,) = _sealed(fleet, "moved")
    assert "order" not in row.data
    fleet.server.execute(f"UPDATE submissions SET uid = {uid} WHERE name = 'moved'", database=fleet.database)
    fleet.start("w1")
    assert fleet.verdict("moved")["verdict"] == "accepted"
    fleet.stop("w1")
    fleet.whole()


def test_what_is_said_to_be_judged_and_never_was_is_recorded_and_promoted_by_nobody(fleet: Fleet) -> None:
    """Who may write submissions, an intake, says that his bundle was accepted; and another time rubbish."""
    for name, data in (("claims", None), ("rubbish", {"sealed": {"digest": 7}, "unpack": 1})):
        fleet.put(name, model_id=f"{TEAM}/{name}")
        row, _ = ordered(fleet, name)
        with fleet.ledger() as ledger:
            if data is None:
                said = {
                    "verdict": "accepted",
                    "promote": ["production"],
                    "options": {},
                    "manifest": {},
                    "document": {},
                }
                Queue(ledger).advance(row.id, "judged", **said)
            else:
                Queue(ledger).advance(row.id, "sealed", **data)
        if data is not None:
            late = f"UPDATE submissions SET received_at = '2026-01-01T00:00:00Z' WHERE id = '{row.id}'"
            fleet.server.execute(late, database=fleet.database)
        report = fleet.verdict(name)
        assert report["verdict"] == "inconclusive"
        with fleet.ledger() as ledger:
            assert read_book(ledger).current(f"{TEAM}/{name}", "production") is None
    fleet.whole()


def _sealed(fleet: Fleet, name: str) -> list[Submission]:
    return [row for row in fleet.rows() if row.name == name and row.state == "sealed"]
