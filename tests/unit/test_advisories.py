"""Signed lists of advisories: who may sign, that numbers rise, what they match, and what becomes of a bundle."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from acceptd.advisories import document, register
from acceptd.advisories.affected import affected
from acceptd.advisories.match import hits
from acceptd.advisory_facts import AdvisoryHit, AdvisoryStanding
from acceptd.errors import LedgerError, MalformedError, SignatureError, UsageError
from acceptd.policy.policy import Policy
from acceptd.reaccept.standing import Standing
from acceptd.record import attest
from acceptd.runtime.identity import RuntimeRecord, identity
from tests.contract_world import ADA, BEN, Instance, Person, an_instance, person
from tests.judge_world import NOW, codes, submission, verdict

pytestmark = pytest.mark.unit

LIST: dict[str, Any] = {
    "schema": 1,
    "number": 3,
    "issued_at": "2026-11-01T00:00:00Z",
    "expires_at": "2099-01-01T00:00:00Z",
    "advisories": [
        {
            "id": "CVE-2026-1",
            "summary": "reads beyond a buffer",
            "versions": ">=1.17,<1.32.1",
            "url": "https://e.org/1",
        }
    ],
}
RUNTIME = RuntimeRecord.model_validate(
    {
        "python": "3.11.7", "implementation": "CPython", "machine": "x86_64", "cpu_class": "c", "numpy": "2.4.6",
        "onnxruntime": "1.32.0", "build": "b", "distribution": "onnxruntime", "available_providers": [],
        "libraries": [{"name": "libonnxruntime.so", "sha256": "a" * 64}], "providers": [], "provider_options": {},
        "allow_cpu_fallback": False, "intra_op_threads": 1, "inter_op_threads": 1, "optimisation": "all",
        "session_entries": {}, "custom_operators": [], "reduced_build": "",
    }
)  # fmt: skip


def changed(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(LIST) | changes


def advisory(**more: Any) -> dict[str, Any]:
    return changed(advisories=[{"id": "A-1", "summary": "s"} | more])


def runtime(**changes: Any) -> RuntimeRecord:
    return RuntimeRecord.model_validate(RUNTIME.model_dump(by_alias=True) | changes)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Instance]:
    made = an_instance(tmp_path / "i")
    yield made
    made.ledger.close()


def signed(what: dict[str, Any], who: Person = ADA) -> dict[str, Any]:
    return document.sign(document.read(what), who[0])


def test_the_newest_list_is_in_force_and_an_older_one_never_replaces_it(place: Instance) -> None:
    assert register.standing(place.ledger, place.rules, [RUNTIME]) is None
    old = signed(LIST)
    register.install(place.ledger, old, place.reviewers)
    register.install(place.ledger, signed(changed(number=12, advisories=[]), BEN), place.reviewers)
    for again in (old, signed(changed(number=12))):
        with pytest.raises(UsageError, match="does not replace 12"):
            register.install(place.ledger, again, place.reviewers)
    found = register.standing(place.ledger, place.rules, [RUNTIME])
    assert found == AdvisoryStanding(
        status="installed", number=12, entry=place.ledger.tree().size - 1, expires_at=LIST["expires_at"]
    )
    assert list(register.examine(place.ledger, place.reviewers)) == []


def test_words_that_nobody_signed_do_not_come_into_the_ledger_with_a_list(place: Instance) -> None:
    envelope = signed(LIST)
    by_nobody = {"keyid": "all reviewers", "sig": "AAAA"}
    carried = {**envelope, "urgent": "install at once", "signatures": [*envelope["signatures"], by_nobody]}
    register.install(place.ledger, carried, place.reviewers)
    entry = register.newest(place.ledger)
    assert entry is not None
    assert entry.body["envelope"] == envelope


def test_only_a_reviewer_of_today_signs_a_list_that_has_not_expired(place: Instance) -> None:
    stranger = person("mallory")
    with pytest.raises(SignatureError, match="no reviewer's key"):
        register.install(place.ledger, signed(LIST, stranger), place.reviewers)
    with pytest.raises(UsageError, match="expired at 2026-11-02"):
        register.install(place.ledger, signed(changed(expires_at="2026-11-02T00:00:00Z")), place.reviewers, NOW)
    gone = person("gone", left=True)
    other = place.reviewers.model_copy(update={"reviewers": [gone[1]]})
    with pytest.raises(UsageError, match="no reviewer any more"):
        register.install(place.ledger, signed(LIST, gone), other)
    assert register.newest(place.ledger) is None


def test_a_signature_over_anything_else_installs_nothing(place: Instance) -> None:
    envelope = signed(LIST)
    for change in ({"payloadType": "application/vnd.acceptd.decision+json"}, {"signatures": []}):
        with pytest.raises(SignatureError):
            register.install(place.ledger, envelope | change, place.reviewers)
    other = {"payload": signed(changed(number=9))["payload"]}
    with pytest.raises(SignatureError, match="does not verify"):
        register.install(place.ledger, envelope | other, place.reviewers)


def test_a_list_whose_signer_is_struck_off_does_not_count_and_holds(place: Instance) -> None:
    register.install(place.ledger, signed(LIST, BEN), place.reviewers)
    file = place.home / "policies" / "reviewers.toml"
    file.write_text(file.read_text().replace(BEN[1].key, ADA[1].key))
    (difference,) = register.examine(place.ledger, place.reviewers.model_copy(update={"reviewers": [ADA[1]]}))
    assert "no reviewer's key" in str(difference)
    found = register.standing(place.ledger, place.rules, [RUNTIME])
    assert found is not None
    assert (found.status, found.hits) == ("unverified", [])
    judged = verdict(submission(advisories=found))
    assert (judged.verdict, codes(judged, "hold")) == ("held", ["runtime/advisories-stale"])


def test_an_entry_that_says_something_else_than_was_signed_is_found(place: Instance) -> None:
    body = {"number": 99, "digest": "0" * 64, "expires_at": LIST["expires_at"], "signer": "ada"}
    place.ledger.append("advisories", body | {"envelope": signed(LIST)})
    assert "number is 99" in str(next(register.examine(place.ledger, place.reviewers)))
    with pytest.raises(LedgerError, match="whole number from 1"):
        place.ledger.append("advisories", body | {"number": 0})


MATCHES: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"versions": ">=1.17,<1.32.1"}, {}, True),
    ({"versions": "<1.32"}, {}, False),
    ({"versions": "==1.32.0"}, {"onnxruntime": "1.32.0+cu12"}, True),
    ({"versions": "<1.33"}, {"onnxruntime": "1.33.0rc1"}, False),
    ({"versions": ">=1.33.0rc1"}, {"onnxruntime": "1.33.0rc1"}, True),
    ({"versions": "<1.0"}, {"onnxruntime": "home-made"}, True),
    ({"versions": ">=1", "packages": ["onnxruntime-gpu"]}, {}, False),
    ({"versions": ">=1", "packages": ["OnnxRuntime_OpenVINO"]}, {"distribution": "onnxruntime-openvino"}, True),
    ({"versions": ">=1", "packages": ["onnxruntime-gpu"]}, {"distribution": ""}, True),
    ({"libraries": ["a" * 64]}, {}, True),
    ({"libraries": ["b" * 64]}, {}, False),
    ({"libraries": ["a" * 64], "versions": "<1.0"}, {}, True),
]


@pytest.mark.parametrize(("said", "ran", "meant"), MATCHES)
def test_an_advisory_speaks_of_versions_packages_and_libraries(
    said: dict[str, Any], ran: dict[str, Any], meant: bool
) -> None:
    found = hits(document.read(advisory(**said)), [runtime(**ran)])
    assert bool(found) == meant
    assert all(one.runtime == identity(runtime(**ran)) for one in found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"number": 0}, "number"),
        ({"expires_at": "2026-10-01T00:00:00Z"}, "is not after issued_at"),
        ({"expires_at": "soon"}, "no time of the form"),
        ({"more": 1}, "more"),
        ({"advisories": [{"id": "A", "summary": "s"}]}, "speaks of no runtime"),
        ({"advisories": [{"id": "A", "summary": "s", "versions": "1.2"}]}, "no version specifier"),
        ({"advisories": [{"id": "A b", "summary": "s", "versions": ">1"}]}, "id"),
        ({"advisories": [{"id": "A", "summary": "s", "versions": ">1", "url": "javascript:x"}]}, "url"),
        ({"advisories": [{"id": "A", "summary": "s", "versions": ">1"}] * 2}, "two have the id"),
    ],
)
def test_nonsense_is_refused_with_its_place(change: dict[str, Any], words: str) -> None:
    with pytest.raises(MalformedError, match=words):
        document.read(changed(**change))


def test_the_shipped_schema_takes_what_we_take() -> None:
    text = (Path(__file__).parents[2] / "docs/advisories.schema.json").read_text("utf-8")
    assert text == document.schema_text()
    jsonschema.Draft202012Validator(json.loads(text)).validate(LIST)
    assert not jsonschema.Draft202012Validator(json.loads(text)).is_valid(changed(number=0))


def known(*ids: str, expires_at: str = "2099-01-01T00:00:00Z", of: RuntimeRecord = RUNTIME) -> AdvisoryStanding:
    found = [AdvisoryHit(id=one, summary="s", runtime=identity(of), because="b") for one in ids]
    return AdvisoryStanding(status="installed", number=3, entry=9, expires_at=expires_at, hits=found)


def test_a_new_bundle_is_held_as_the_policy_says() -> None:
    given = submission(advisories=known("CVE-1", "CVE-2"), runtimes=[RUNTIME])
    judged = verdict(given)
    assert judged.verdict == "held"
    assert codes(judged, "hold") == ["runtime/advisory"] * 2
    assert {one.audience for one in judged.findings if one.code == "runtime/advisory"} == {"reviewer"}
    for severity, outcome in (("reject", "rejected"), ("warn", "accepted"), ("info", "accepted")):
        policy = Policy.model_validate({"schema": 1, "advisories": {"affected": severity}})
        assert verdict(given, policy=policy).verdict == outcome


def test_an_expired_list_holds_and_a_foreign_runtimes_advisory_does_not() -> None:
    other = known("CVE-1", of=runtime(python="3.12.0"))
    assert verdict(submission(advisories=other, runtimes=[RUNTIME])).verdict == "accepted"
    late = submission(advisories=known(expires_at=NOW), runtimes=[RUNTIME])
    assert codes(verdict(late), "hold") == ["runtime/advisories-stale"]
    policy = Policy.model_validate({"schema": 1, "advisories": {"stale": "warn"}})
    assert verdict(late, policy=policy).verdict == "accepted"


def test_what_was_released_is_affected_not_affected_or_unknown(place: Instance) -> None:
    blob = json.dumps({"runtimes": [RUNTIME.model_dump(mode="json", by_alias=True)], "others": []}).encode()
    body = {"verdict": "accepted", "judged_at": NOW, "reason": "r", "findings": []}
    with place.ledger.transaction() as change:
        digest = change.put_evidence(blob)
        first = change.append("verdict", body | {"evidence_digest": digest}, submission="s-1")
        second = change.append("verdict", body, submission="s-2")

    def of(seq: int, **said: Any) -> tuple[int, bool]:
        standing = Standing("a/b", "0" * 64, (), "accepted", seq, "", frozenset(), (), revoked=False)
        found = affected(place.ledger, document.read(advisory(**said)), standing)
        return len(found.hits), bool(found.unknown)

    assert of(first.seq, versions=">=1") == (1, False)
    assert of(first.seq, versions="<1") == (0, False)
    assert of(second.seq, versions=">=1") == (0, True)
    assert of(10_000, versions=">=1") == (0, True)


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (None, "its evidence is no longer kept"),
        (b"{}", "its evidence names no runtime"),
        (b'{"runtimes": [{"python": 3}]}', "its runtimes are not on record"),
        (b'{"runtimes": 7}', "its runtimes are not on record"),
        (b"[]", "its runtimes are not on record"),
    ],
    ids=["gone", "no runtime", "another form", "no list", "no object"],
)
def test_a_release_whose_runtimes_are_not_known_is_never_called_unaffected(
    place: Instance, evidence: bytes | None, words: str
) -> None:
    digest = "0" * 64
    with place.ledger.transaction() as change:
        if evidence is not None:
            digest = change.put_evidence(evidence)
        entry = change.append("note", {"evidence_digest": digest})
    standing: Any = SimpleNamespace(verdict_seq=entry.seq)
    found = affected(place.ledger, document.read(LIST), standing)
    assert (found.hits, found.runtimes) == ((), ())
    assert words in found.unknown
    assert "\n" not in found.unknown


def test_two_who_install_one_list_at_once_install_it_once(
    place: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    register.install(place.ledger, signed(LIST), place.reviewers)
    monkeypatch.setattr(register, "newest", lambda _ledger: None)  # as the other one saw it before
    with pytest.raises(UsageError, match="the list 3 is on record already"):
        register.install(place.ledger, signed(LIST), place.reviewers)
    assert len(list(place.ledger.entries(kind="advisories"))) == 1


def test_signed_bytes_that_are_no_canonical_list_are_malformed(place: Instance) -> None:
    payload = b'{ "schema": 1 }'
    envelope = attest.sign(document.ADVISORIES_TYPE, payload, ADA[0])
    with pytest.raises(MalformedError, match="the list of advisories is "):
        document.opened(envelope, place.reviewers)
