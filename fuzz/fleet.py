"""Targets of what nodes of a fleet sign for one another: seals, evidence, orders, handovers.

Whoever may write to the shared record may put anything there, and a node that the policy trusts may have fallen.
So each document is taken as it lies there (nothing counts that its node did not sign), and as signed by a node
that counts: then it is read, or refused with the one typed error that an order or a verdict is made of.
"""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import Any, Final

from acceptd.errors import FleetTrustError, LoaderError, MalformedError, ObjectStoreError
from acceptd.evidence import Prior
from acceptd.fleet import task
from acceptd.fleet.examined import Examined, prior_of
from acceptd.fleet.handover import Handover
from acceptd.fleet.order import TYPE as ORDER_TYPE
from acceptd.fleet.order import Order
from acceptd.fleet.seal import open_seal, sign_seal
from acceptd.fleet.statement import Due, open_evidence, read_evidence
from acceptd.intake.target import bundle_digest
from acceptd.objectstore import inventory
from acceptd.prior import Snapshot
from acceptd.record import attest
from acceptd.record.canonical import canonical, parse, plain_bytes
from acceptd.record.queue import Submission as Row
from fuzz import house
from fuzz.house import KEYRING, genuine, only, signer
from tests import fleet_evidence as world
from tests import judge_world

CASE: Final = world.Case()
ENVELOPE, EVIDENCE = CASE.signed()
DUE: Final = Due(world.order(), "mosaic", judge_world.sealed(), "cpu")
BUNDLE: Final = judge_world.sealed().model_copy(update={"digest": bundle_digest(judge_world.sealed().files)})
INTAKE: Final = world.trust(world.entry("gpu-1", role="intake"))


def _signed(raw: bytes) -> bytes:
    return house.unremembered(attest.PAYLOAD_TYPE, raw, CASE.signer)


def check_seal(raw: bytes) -> None:
    """What an intake sealed."""
    for data in (raw, _signed(raw)):
        told: Any = only(FleetTrustError, lambda data=data: _open_seal(data))
        if told is not None:
            assert told.predicate.bundle_digest == BUNDLE.digest
            assert told.predicate.submission == "s-1"
            if data is raw:
                genuine(attest.PAYLOAD_TYPE, attest.unverified(parse(raw))[0])


def _open_seal(data: bytes) -> Any:
    return open_seal(
        data, INTAKE, submission="s-1", team="mosaic", drop="a drop", uid=1000, sealed=BUNDLE, jobs=(),
        model="mosaic/evidence-disposition",
    )  # fmt: skip


def check_statement(raw: bytes) -> None:
    """What a worker says of its evidence, evidence itself left out."""
    for data in (raw, _signed(raw)):
        told: Any = only(FleetTrustError, partial(read_evidence, data, CASE.trust, DUE, "other"))
        if told is not None:
            assert (told.predicate.order, told.predicate.profile) == (DUE.order.digest, "other")
            if data is raw:
                genuine(attest.PAYLOAD_TYPE, attest.unverified(parse(raw))[0])


def check_evidence(raw: bytes) -> None:
    """Evidence: read as the one document that was written, or not at all; also by its statement."""
    examined = only(MalformedError, lambda: Examined.from_bytes(raw))
    if examined is not None:
        assert Examined.from_bytes(examined.to_bytes()).to_bytes() == examined.to_bytes()
    said = json.loads(attest.unverified(json.loads(ENVELOPE))[0])
    said["predicate"]["evidence"] = {"sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
    said["subject"][1]["digest"]["sha256"] = hashlib.sha256(raw).hexdigest()
    found = only(
        FleetTrustError,
        lambda: open_evidence(_signed(canonical(said)), CASE.trust, DUE, "other", lambda *_: raw),
    )
    assert found is None or found.examined == examined


def check_order(raw: bytes) -> None:
    """An order: as it lies in the record, and as one of the ledger's key."""
    value = only(MalformedError, lambda: _json(raw))
    found = only(LoaderError, lambda: Order.opened(value, KEYRING))
    if found is not None:
        genuine(ORDER_TYPE, attest.unverified(value)[0])
    only(LoaderError, lambda: Order.told(value))
    signed = json.loads(house.unremembered(ORDER_TYPE, raw, signer("ledger")))
    for open_it in (lambda: Order.opened(signed, KEYRING), lambda: Order.told(signed)):
        order = only(LoaderError, open_it)
        if order is not None:
            assert Order.opened(order.signed(signer("ledger")), KEYRING) == order
            only(LoaderError, lambda order=order: order.agreed)


def check_handover(raw: bytes) -> None:
    """What an intake hands over of a drop that could not be sealed."""
    found = only(MalformedError, lambda: Handover.read(raw, ROW))
    if found is not None:
        again = plain_bytes(found.model_dump(mode="json", by_alias=True))
        assert plain_bytes(Handover.read(again, ROW).model_dump(mode="json", by_alias=True)) == again


def check_prior(raw: bytes) -> None:
    """Which release a model is compared with, and a task of the queue, as both lie where others may write."""
    found = only(MalformedError, lambda: prior_of(raw))
    if found is not None:
        assert prior_of(plain_bytes(found.model_dump(mode="json", by_alias=True))) == found
    arguments = only(MalformedError, lambda: _json(raw))
    made = task.read("acceptd:examine", "cpu", arguments, 1)
    assert made is None or task.read("acceptd:examine", "cpu", made.args(), 1) == made


def check_inventory(raw: bytes) -> None:
    """What the object store gives as the list of a bundle's files: no path leads out of it, none stands twice."""
    digest = hashlib.sha256(raw).hexdigest()
    files = only(ObjectStoreError, lambda: inventory.opened(raw, digest, 1 << 20))
    if files is not None:
        paths = [one.path for one in files]
        assert len({path.casefold() for path in paths}) == len(paths)
        assert all(not {"", ".", ".."} & set(path.split("/")) for path in paths)
        assert inventory.total(files) <= 1 << 20


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"no JSON: {error}") from error


ROW: Final = Row(
    id="s-1", team="mosaic", name="a drop", path="/p", kind="directory", state="claimed", received_at=house.AT,
    updated_at=house.AT, uid=1000, data={}, working=False, bundle_digest=None, model=None,
)  # fmt: skip


def seeds() -> dict[str, dict[str, bytes]]:
    """Return the seeds of all targets of this file."""
    seal = sign_seal(
        CASE.signer, CASE.node, submission="s-1", team="mosaic", drop="a drop", uid=1000,
        sealed=BUNDLE, jobs=(), model="mosaic/evidence-disposition", at=CASE.ended,
    ).encode()  # fmt: skip
    order = canonical(DUE.order.model_dump(mode="json", by_alias=True))
    contract = canonical(
        DUE.order.model_copy(
            update={"contract": judge_world.a_contract().model_dump(mode="json", by_alias=True), "heldout": 1}
        ).model_dump(mode="json", by_alias=True)
    )
    ended = {
        "submission": "s-1", "node": "gpu-1", "team": "mosaic", "drop": "a drop", "uid": 1000, "sealed": None,
        "model": "", "unpack": [], "seal_ms": 0.5, "failure": None, "outer": {}, "ended": None,
    }  # fmt: skip
    failure = {"code": "seal/too-deep", "where": "a/b", "message": "m"}
    made = {
        "seal": {"file": seal, "payload": _inside(seal)},
        "statement": {"file": ENVELOPE.encode(), "payload": _inside(ENVELOPE.encode())},
        "evidence": {"one": EVIDENCE},
        "order": {
            "file": house.seal(ORDER_TYPE, order, signer("ledger")),
            "payload": order,
            "contract": contract,
        },
        "prior": {
            "none": plain_bytes(Prior(status="none", reason="none yet").model_dump(mode="json")),
            "found": plain_bytes(_prior().model_dump(mode="json")),
            "task": canonical(task.FleetTask(kind="examine", queue="cpu", submission="s-1", profile="cpu").args()),
        },
        "inventory": {
            "two": canonical([{"path": path, "sha256": "1" * 64, "size": 3} for path in ("a/b", "model.onnx")]),
            "up": canonical([{"path": "../up", "sha256": "1" * 64, "size": 3}]),
            "twice": canonical([{"path": path, "sha256": "1" * 64, "size": 3} for path in ("a", "A")]),
        },
        "handover": {
            "ended": canonical(ended | {"ended": {"code": "cell/deadline", "message": "late"}}),
            "failed": canonical(ended | {"failure": failure}),
            "unpack": canonical(ended | {"unpack": [json.loads(judge_world.record("unpack").model_dump_json())]}),
        },
    }
    for one in (seal, ENVELOPE.encode()):
        house.seal(attest.PAYLOAD_TYPE, _inside(one), CASE.signer)
    return made


def _prior() -> Prior:
    job = judge_world.inspect()
    assert job.facts is not None
    snapshot = Snapshot(
        name="main", file="model.onnx", bytes=1, facts=job.facts, structure=judge_world.structure()
    )
    return Prior(
        status="found", channel="production", number=1, bundle_digest="1" * 64, version="1", models=[snapshot],
    )  # fmt: skip


def _inside(envelope: bytes) -> bytes:
    return attest.unverified(json.loads(envelope))[0]


seeds()  # what they sign is genuine wherever a saved input is replayed
