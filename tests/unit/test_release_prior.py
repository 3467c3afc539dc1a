"""What a new bundle is compared with: the release in force as the record proves it, or why it is not known."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import LedgerStorageError
from acceptd.judge.successor import Prior
from acceptd.release import prior as priors
from acceptd.release.book import Row, read_book
from tests import judge_world as evidence
from tests.release_world import MODEL, World

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def kept(world: World, **changes: Any) -> str:
    """Keep the evidence of a flawless submission, with changes, and return its digest."""
    document = json.loads(evidence.submission().model_dump_json(by_alias=True)) | changes
    with world.ledger.transaction() as change:
        digest = change.put_evidence(json.dumps(document).encode())
        change.append("note", {"evidence": digest})
    return digest


def found(world: World, digest: str = "0" * 64) -> Prior:
    return priors.prior_release(world.ledger, world.keys.keyring, MODEL, "production", digest)


def in_force(world: World) -> Row:
    row = read_book(world.ledger).current(MODEL, "production")
    assert row is not None
    return row


def test_the_release_in_force_is_found_with_the_facts_of_its_models(world: World) -> None:
    made = world.released("1.4.0", evidence_digest=kept(world))
    prior = found(world)
    assert (prior.status, prior.reason, prior.number) == ("found", "", 1)
    assert (prior.bundle_digest, prior.channel, prior.revoked) == (made.bundle_digest, "production", False)
    [model] = prior.models
    assert (model.name, model.file, model.facts.nodes) == ("main", "model.onnx", 3)
    assert prior.declared is not None


def test_without_a_release_and_with_the_same_bundle_there_is_nothing_to_compare(world: World) -> None:
    assert (found(world).status, found(world).reason) == ("none", f"{MODEL} has no release on production yet")
    made = world.released("1.0.0")
    same = found(world, made.bundle_digest)
    assert (same.status, same.reason, same.number) == ("same", "this bundle is the current release", 1)


def test_a_ledger_that_cannot_be_read_is_no_ledger_without_a_release(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an outage would let a bundle pass as the first of its channel, compared with nothing."""
    world.released("1.0.0")

    def away(_ledger: object) -> Any:
        raise LedgerStorageError("the disk is away")

    monkeypatch.setattr(priors, "read_book", away)
    prior = found(world)
    assert (prior.status, prior.models) == ("unknown", [])
    assert prior.reason.startswith("the ledger could not be read: ")


NO_STRUCTURE = [
    job | ({"structure": None} if job["kind"] == "inspect" else {})
    for job in json.loads(evidence.submission().model_dump_json(by_alias=True))["jobs"]
]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"jobs": NO_STRUCTURE}, "its evidence holds no structure of the model 'main'"),
        (
            {"jobs": [job for job in NO_STRUCTURE if job["kind"] != "inspect"]},
            "its evidence does not hold the facts of every model",
        ),
        (
            {"jobs": [{**NO_STRUCTURE[1], "structure": {}, "wire": {"bytes": "many"}}]},
            "its evidence does not hold",
        ),
        ({"jobs": None}, "release 1 of"),
    ],
    ids=["no structure", "no model inspected", "no manifest", "no jobs"],
)
def test_evidence_that_does_not_hold_every_model_compares_with_nothing_and_says_so(
    changes: dict[str, Any], words: str, world: World
) -> None:
    world.released("1.0.0", evidence_digest=kept(world, **changes))
    prior = found(world)
    assert (prior.status, prior.models, prior.number) == ("unknown", [], 1)
    assert prior.reason.startswith("release 1 of ")
    assert words in prior.reason


def test_evidence_that_is_no_longer_kept_is_told(world: World) -> None:
    world.released("1.0.0", evidence_digest="a" * 64)
    assert found(world).reason == f"release 1 of {MODEL}: its evidence is no longer kept"


def test_the_entry_of_its_verdict_has_to_be_one_about_these_bytes(world: World) -> None:
    world.released("1.0.0", evidence_digest=kept(world))
    other = world.accepted("2.0.0", evidence_digest=kept(world))
    row = in_force(world)
    for seq, words in (
        (row.intent_seq, f"ledger entry {row.intent_seq} is no verdict"),
        (other.verdict_seq, f"ledger entry {other.verdict_seq} did not accept {row.digest}"),
    ):
        prior, said = priors.recorded(world.ledger, world.keys.keyring, dataclasses.replace(row, verdict_seq=seq))
        assert (prior.status, said) == ("unknown", {})
        assert prior.reason == f"release 1 of {MODEL}: {words}"


def test_a_rejected_bundle_is_no_release_to_be_compared_with_though_its_record_can_be_read(world: World) -> None:
    """The row may name it after a restored backup; who asks for the record alone still gets what was signed."""
    world.released("1.0.0", evidence_digest=kept(world))
    rejected = world.accepted("3.0.0", verdict="rejected", evidence_digest=kept(world))
    row = dataclasses.replace(in_force(world), verdict_seq=rejected.verdict_seq, digest=rejected.digest)
    prior, said = priors.recorded(world.ledger, world.keys.keyring, row)
    assert (prior.status, said["verdict"]) == ("found", "rejected")
    strict, _ = priors._facts(
        world.ledger, world.keys.keyring, row, priors._head(read_book(world.ledger), row), frozenset({"accepted"})
    )
    assert strict.reason.endswith(f"did not accept {row.digest}")


def test_an_entry_that_says_otherwise_than_its_signed_statement_counts_for_nothing(world: World) -> None:
    """Whoever writes into the database without the ledger's key could else choose what is compared."""
    accepted, _, sealed = world.judged("1.0.0")
    body = world.verdict(sealed, accepted.manifest, "sub-9", model_id=MODEL, verdict="rejected")
    forged = world.ledger.append("verdict", {**body, "verdict": "accepted"}, submission="sub-9")
    unsigned = {key: value for key, value in body.items() if key != "statement"}
    bare = world.ledger.append("verdict", unsigned, submission="sub-10")
    row = Row(MODEL, "production", 1, sealed.digest, "promote", "r", forged.seq, 0, "")
    prior, said = priors.recorded(world.ledger, world.keys.keyring, row)
    assert (prior.status, said) == ("unknown", {})
    assert f"ledger entry {forged.seq}: its statement verdict is 'rejected'" in prior.reason
    prior, _ = priors.recorded(world.ledger, world.keys.keyring, dataclasses.replace(row, verdict_seq=bare.seq))
    assert f"ledger entry {bare.seq} has no signed verdict" in prior.reason
