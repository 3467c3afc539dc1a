"""Targets of what people sign: decisions, revocations, versions of contracts, lists of advisories.

As with every signed file, twice over: as the file (nothing opens that no reviewer signed), and as a payload that
a reviewer did sign (then it is read and written alike, or refused with the one typed error).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from acceptd.advisories import document as advisories
from acceptd.contracts import version as versions
from acceptd.errors import LoaderError, UsageError
from acceptd.record.canonical import canonical, parse
from acceptd.review import decision as decisions
from acceptd.review import revocation
from acceptd.web import handover
from fuzz import house
from fuzz.house import ADA, LOG, PEOPLE, genuine, only
from tests import judge_world

TYPED = (LoaderError, UsageError)


def check_decision(raw: bytes) -> None:
    """A signed decision or revocation, as the console and the command line take it; and prepared bytes."""
    envelope = only(TYPED, lambda: handover.read(raw))
    for kind, module in ((decisions.DECISION_TYPE, decisions), (revocation.REVOCATION_TYPE, revocation)):
        found = _opened(kind, envelope, lambda value, module=module: module.opened(value, PEOPLE))
        if found is not None:
            assert found[1].name == "ada"
            kept = decisions.of_record(envelope, PEOPLE)
            assert set(kept) == {"payload", "payloadType", "signatures"}
            assert all(one["keyid"] == ADA.key_id for one in kept["signatures"])
    only(TYPED, lambda: handover.expect_decision(envelope, PEOPLE, "sub-1"))
    only(TYPED, lambda: handover.expect_revocation(envelope, PEOPLE, "1" * 64))
    of: Any = revocation if revocation.is_one(raw) else decisions
    said = only(LoaderError, lambda: of.read(raw))
    if said is not None:
        assert of.to_sign(said) == raw or _defaulted(raw, of.to_sign(said))
        assert of.read(of.to_sign(said)) == said
        assert of.opened(of.sign(raw, ADA), PEOPLE)[0] == said


def _defaulted(raw: bytes, written: bytes) -> bool:
    """Say whether ``written`` is ``raw`` with what it had left out."""
    before, after = parse(raw), parse(written)
    return all(after.get(key) == value for key, value in before.items())


def _opened(kind: str, envelope: Any, call: Callable[[Any], Any]) -> Any:
    found = only(LoaderError, lambda: call(envelope))
    if found is not None:
        genuine(kind, decisions.attest.unverified(envelope)[0])
    return found


def check_version(raw: bytes) -> None:
    """A signed version of a contract, and prepared bytes."""
    envelope = only(TYPED, lambda: handover.read(raw))
    _opened(versions.CONTRACT_TYPE, envelope, lambda value: versions.opened(value, PEOPLE))
    only(LoaderError, lambda: versions.payload_of(envelope))
    only(LoaderError, lambda: versions.joined([envelope, envelope]))
    said = only(LoaderError, lambda: versions.read(raw))
    if said is not None:
        written = versions.to_sign(said.said)
        assert versions.read(written) == said
        assert versions.opened(versions.sign(raw, ADA), PEOPLE)[0] == said


def check_advisories(raw: bytes) -> None:
    """A signed list of advisories, and a list that is to be signed."""
    envelope = only(TYPED, lambda: handover.read(raw))
    _opened(advisories.ADVISORIES_TYPE, envelope, lambda value: advisories.opened(value, PEOPLE))
    said = only(LoaderError, lambda: advisories.read(envelope))
    if said is not None:
        assert advisories.opened(advisories.sign(said, ADA), PEOPLE)[0] == said


def seeds() -> dict[str, dict[str, bytes]]:
    """Return the seeds of the three targets."""
    decided: dict[str, Any] = {
        "schema": 1, "log": LOG, "decision": "approve", "submission": "sub-1", "verdict_seq": 3,
        "leaf_hash": "1" * 64, "bundle_digest": "2" * 64, "policy_digest": "3" * 64, "contract_digest": None,
        "profile_digest": "4" * 64, "profiles_digest": None, "channel": "production", "reason": "looked at it",
        "expires_at": "2027-06-30T00:00:00Z", "nonce": "a" * 32, "codes": [], "attestations": [],
    }  # fmt: skip
    waived = decided | {"decision": "waive", "codes": ["operator/unknown"], "nonce": "b" * 32}
    wanted = {
        "schema": 1, "revoke": "bundle", "log": LOG, "bundle_digest": "1" * 64, "rollback": True,
        "reason": "it bites", "expires_at": "2027-06-30T00:00:00Z", "nonce": "c" * 32,
    }  # fmt: skip
    listed = {
        "schema": 1, "number": 2, "issued_at": house.AT, "expires_at": "2027-06-30T00:00:00Z", "note": None,
        "advisories": [
            {"id": "CVE-2026-1", "summary": "a crash", "url": "https://example.org/1", "packages": ["onnxruntime"],
             "versions": ">=1.17,<1.18.1", "libraries": []},
            {"id": "OURS-1", "summary": "a library", "url": "", "versions": None, "packages": [],
             "libraries": ["5" * 64]},
        ],
    }  # fmt: skip
    version = versions.to_sign(versions.prepared(judge_world.a_contract(), (), LOG, None, "first").said)
    made: dict[str, dict[str, bytes]] = {"decision": {}, "version": {}, "advisories": {}}
    for target, kind, name, data in (
        ("decision", decisions.DECISION_TYPE, "approve", canonical(decided)),
        ("decision", decisions.DECISION_TYPE, "waive", canonical(waived)),
        ("decision", revocation.REVOCATION_TYPE, "revoke", canonical(wanted)),
        ("version", versions.CONTRACT_TYPE, "first", version),
        ("advisories", advisories.ADVISORIES_TYPE, "two", canonical(listed)),
    ):
        made[target][name] = data
        made[target][f"{name}-signed"] = house.seal(kind, data, ADA)
    made["decision"]["utf-16"] = json.dumps({"payload": "", "payloadType": "x", "signatures": []}).encode("utf-16")
    return made


seeds()  # what they sign is genuine wherever a saved input is replayed
