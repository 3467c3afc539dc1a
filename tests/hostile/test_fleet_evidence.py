"""Every lie that a worker can tell about whose evidence it is, what it is about, and how it was made."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from acceptd.advisory_facts import AdvisoryStanding
from acceptd.contract_facts import ContractStanding
from acceptd.errors import FleetTrustError
from acceptd.evidence import HeldOut, Prior, SealFailure, UnderProfile
from acceptd.fleet import envelope as envelopes
from acceptd.fleet.examined import Examined
from acceptd.fleet.statement import Due
from acceptd.record.attest import sign, sign_statement
from acceptd.record.canonical import canonical
from acceptd.statement.fleet import EVIDENCE_TYPE, SEAL_TYPE
from tests import fleet_evidence as fleet
from tests import heldout_world
from tests import judge_world as world
from tests.statement_world import troubles

pytestmark = pytest.mark.hostile

Change = Callable[[fleet.Case], Any]


def told(envelope: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(base64.b64decode(json.loads(envelope)["payload"]))
    return value


def resigned(case: fleet.Case, change: Callable[[dict[str, Any]], Any]) -> str:
    """The worker's own statement with something else in it, signed again with its key."""
    said = told(case.signed()[0])
    change(said)
    return canonical(sign_statement(said, case.signer)).decode()


def refused(case: fleet.Case, **given: Any) -> FleetTrustError:
    with pytest.raises(FleetTrustError) as found:
        case.open(**given)
    assert found.value.code == "cell/evidence-refused"
    assert "\n" not in str(found.value)
    assert len(str(found.value)) < 1000
    return found.value


def test_positive_control_evidence_of_who_is_trusted_for_the_order_counts() -> None:
    case = fleet.Case()
    found = case.open()
    assert found.examined == case.examined
    envelope, data = case.signed()
    assert troubles(told(envelope)) == []
    assert found.source == {
        "profile": "other",
        "node": "gpu-1",
        "host": "host-gpu-1",
        "key_id": fleet.signer("gpu-1").key_id,
        "statement": found.told.digest,
    }
    assert found.told.predicate.evidence.bytes == len(data)
    assert len(envelope) < envelopes.MAX_BYTES / 10
    assert fleet.order().seed not in json.dumps(told(envelope))  # it is not told


# -- whose word it is --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        pytest.param({"signer": fleet.signer("stranger")}, "unknown-key", id="a key of nobody"),
        pytest.param({"node": fleet.node("gpu-2")}, "node", id="another node's name"),
        pytest.param({"trust": fleet.trust()}, "unknown-key", id="a policy that trusts nobody"),
        pytest.param(
            {"trust": fleet.trust(fleet.entry("gpu-1", role="intake"))}, "role", id="an intake that examines"
        ),
        pytest.param(
            {"trust": fleet.trust(fleet.entry("gpu-1", "cpu", "spare"))},
            "profile",
            id="trusted for others",
        ),
        pytest.param(
            {"trust": fleet.trust(fleet.entry("gpu-1", "other", revoked="stolen"))}, "revoked", id="a revoked key"
        ),
        pytest.param(
            {"trust": fleet.trust(fleet.entry("gpu-1", "other", expires="2026-07-01T12:00:00Z"))},
            "expired",
            id="an expired key",
        ),
        pytest.param(
            {"trust": fleet.trust(fleet.entry("gpu-1", "other", walls=["memory_cgroup"]))},
            "wall-missing",
            id="without the wall that is asked of it",
        ),
    ],
)
def test_only_who_the_policy_names_for_the_profile_counts(change: dict[str, Any], cause: str) -> None:
    case = fleet.Case(**change)
    assert refused(case).cause == cause


def test_a_key_that_is_trusted_until_later_counts() -> None:
    fleet.Case(trust=fleet.trust(fleet.entry("gpu-1", "other", expires="2026-07-01T12:00:01Z"))).open()


@pytest.mark.parametrize("wall", ["network", "seccomp", "namespaces"])
def test_who_examined_without_a_required_wall_does_not_count_though_it_says_so_honestly(wall: str) -> None:
    case = fleet.Case().evidence(walls=world.submission().walls | {wall: "unavailable"})
    found = refused(case)
    assert found.cause == "wall-missing"
    assert f"{wall} is unavailable" in str(found)


def test_who_says_nothing_of_its_walls_does_not_count() -> None:
    found = refused(fleet.Case().evidence(walls={}))
    assert found.cause == "wall-missing"
    assert "not named" in str(found)


# -- what it is signed with --------------------------------------------------------------------------------


def _json(envelope: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(envelope)
    return value


def _without_signature(envelope: str) -> bytes:
    return canonical(_json(envelope) | {"signatures": []})


def _two_signatures(envelope: str) -> bytes:
    value = _json(envelope)
    return canonical(value | {"signatures": value["signatures"] * 2})


def _other_payload(envelope: str) -> bytes:
    value = _json(envelope)
    said = json.loads(base64.b64decode(value["payload"]))
    said["predicate"]["round"] = 1
    said["predicate"]["profile"] = "cpu"
    return canonical(value | {"payload": base64.b64encode(canonical(said)).decode()})


def _other_signature(envelope: str) -> bytes:
    value = _json(envelope)
    value["signatures"][0]["sig"] = base64.b64encode(bytes(64)).decode()
    return canonical(value)


def _other_type(envelope: str) -> bytes:
    payload = base64.b64decode(_json(envelope)["payload"])
    return canonical(sign("application/vnd.acceptd.release+json", payload, fleet.signer("gpu-1")))


@pytest.mark.parametrize(
    ("forge", "cause"),
    [
        pytest.param(_without_signature, "unsigned", id="no signature"),
        pytest.param(_two_signatures, "malformed", id="two signatures"),
        pytest.param(_other_payload, "bad-signature", id="something else than was signed"),
        pytest.param(_other_signature, "bad-signature", id="a signature of zeros"),
        pytest.param(_other_type, "bad-signature", id="a signature over another type"),
        pytest.param(lambda text: canonical(_json(text) | {"more": 1}), "malformed", id="a member more"),
        pytest.param(lambda text: text.replace(":", ": ", 1).encode(), "malformed", id="a space"),
        pytest.param(
            lambda text: text.replace("{", '{"payload":"",', 1).encode(), "malformed", id="two keys alike"
        ),
        pytest.param(
            lambda text: text.replace('"signatures":[', '"signatures":[NaN,').encode(), "malformed", id="NaN"
        ),
        pytest.param(lambda _text: b"[" * 200_000, "malformed", id="deep nesting"),
        pytest.param(lambda _text: b"{" + b'"a":{' * 40_000, "malformed", id="deep nesting of objects"),
        pytest.param(lambda _text: b"", "malformed", id="nothing"),
        pytest.param(lambda _text: b"null", "malformed", id="null"),
        pytest.param(lambda _text: b"\xff\xfe", "malformed", id="no text"),
        pytest.param(lambda text: text.encode() + b" " * envelopes.MAX_BYTES, "size", id="too large"),
        pytest.param(lambda _text: "\udcff" * 10, "malformed", id="no Unicode"),
    ],
)
def test_an_envelope_that_is_none_is_refused_before_it_is_believed(
    forge: Callable[[str], Any], cause: str
) -> None:
    case = fleet.Case()
    found = refused(case, envelope=forge(case.signed()[0]))
    assert found.cause == cause


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        pytest.param(lambda said: said.update(predicateType=SEAL_TYPE), "malformed", id="a seal's type"),
        pytest.param(lambda said: said.update(_type="in-toto/v0.1"), "malformed", id="old type"),
        pytest.param(lambda said: said.update(subject=[]), "malformed", id="about nothing"),
        pytest.param(lambda said: said["predicate"].update(verdict="accepted"), "malformed", id="a verdict"),
        pytest.param(lambda said: said["predicate"].pop("walls"), "malformed", id="no walls"),
        pytest.param(lambda said: said["predicate"].update(round="1"), "malformed", id="a round as text"),
        pytest.param(lambda said: said["predicate"].update(round=True), "malformed", id="a round as a boolean"),
        pytest.param(lambda said: said["predicate"].update(round=-1), "malformed", id="a round before the first"),
        pytest.param(lambda said: said["predicate"].update(node="gpu-1"), "malformed", id="a node that is text"),
        pytest.param(
            lambda said: said["predicate"]["evidence"].update(sha256="../../etc/passwd"), "malformed", id="a path"
        ),
        pytest.param(
            lambda said: said["predicate"]["walls"]["states"].update(network="sure"), "malformed", id="a new state"
        ),
        pytest.param(
            lambda said: said["subject"][0]["digest"].update(sha256="0" * 64),
            "contradiction",
            id="another bundle",
        ),
        pytest.param(
            lambda said: said["subject"].append({"name": "x", "digest": {"sha256": "0" * 64}}),
            "contradiction",
            id="a subject more",
        ),
    ],
)
def test_a_statement_that_is_signed_and_no_evidence_is_refused(
    change: Callable[[dict[str, Any]], Any], cause: str
) -> None:
    case = fleet.Case()
    assert refused(case, envelope=resigned(case, change)).cause == cause


# -- what it is about --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        pytest.param({"submission": "s-2"}, "submission", id="another submission"),
        pytest.param({"team": "other"}, "submission", id="another team"),
        pytest.param({"round": 2}, "round", id="another round"),
        pytest.param({"bundle_digest": "0" * 64}, "bundle", id="another bundle"),
        pytest.param({"policy_digest": "0" * 64}, "policy", id="another policy"),
        pytest.param({"contract_digest": "0" * 64}, "contract", id="another contract"),
        pytest.param({"profile": "cpu"}, "profile", id="another profile"),
        pytest.param({"profile_digest": "0" * 64}, "profile", id="another profile of that name"),
        pytest.param({"seed_digest": "0" * 64}, "seed", id="other probes"),
        pytest.param({"order": "0" * 64}, "order", id="another order"),
        pytest.param({"heldout": 1}, "heldout", id="a held-out evaluation that nobody asked for"),
        pytest.param({"started_at": "2026-07-01T11:02:00Z"}, "stale", id="it ended before it began"),
        pytest.param({"ended_at": "2026-07-01T12:06:00Z"}, "stale", id="it will end"),
        pytest.param(
            {"started_at": "2026-06-30T11:59:00Z", "ended_at": "2026-06-30T11:59:59Z"}, "stale", id="of yesterday"
        ),
        pytest.param({"evidence": {"sha256": "0" * 64, "bytes": 1 << 40}}, "size", id="a terabyte of evidence"),
    ],
)
def test_evidence_for_anything_else_than_the_order_is_refused_before_it_is_fetched(
    change: dict[str, Any], cause: str
) -> None:
    case = fleet.Case()

    def never(_digest: str, _most: int) -> bytes:
        raise AssertionError("fetched")

    def other(said: dict[str, Any]) -> None:
        said["predicate"].update(change)
        said["subject"][1]["digest"]["sha256"] = said["predicate"]["evidence"]["sha256"]

    envelope = resigned(case, other)
    assert refused(case, envelope=envelope, fetch=never).cause == cause


def test_evidence_of_a_worker_that_may_not_is_none_of_held_out_vectors() -> None:
    asked = fleet.order(heldout=3, round=2)
    due = Due(asked, "mosaic", world.sealed(), "cpu")
    held = heldout_world.held(heldout_world.decoded()).model_copy(update={"number": 3})
    case = fleet.Case(order=asked, due=due).evidence(heldout=held)
    assert refused(case).cause == "heldout"
    case.trust = fleet.trust(fleet.entry("gpu-1", "other", heldout=True))
    assert case.open().examined.submission.heldout == held
    case.evidence(heldout=held.model_copy(update={"number": 2}))
    assert refused(case).cause == "contradiction"
    case.evidence(heldout=None)
    assert refused(case).cause == "contradiction"
    for status in ("local", "spent"):  # what a desk says that has none, and what the promoter alone can know
        case.evidence(heldout=HeldOut.model_validate({"status": status, "number": 3}))
        assert refused(case).cause == "contradiction"


# -- what was stored, and what it says ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{}", id="something else"),
        pytest.param(fleet.part(fleet.whole(), "spare").to_bytes(), id="another profile's"),
    ],
)
def test_stored_bytes_that_are_not_what_was_signed_are_not_read(data: bytes) -> None:
    assert refused(fleet.Case(), data=data).cause == "digest"


def _signs(data: bytes) -> tuple[fleet.Case, dict[str, Any]]:
    """A worker that signs whatever bytes."""
    import hashlib

    case = fleet.Case()
    blob = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}

    def change(said: dict[str, Any]) -> None:
        said["predicate"]["evidence"] = blob
        said["subject"][1]["digest"]["sha256"] = blob["sha256"]

    return case, {"envelope": resigned(case, change), "data": data}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[" * 500_000, id="deep nesting"),
        pytest.param(b'{"a":' * 500_000, id="deep nesting of objects"),
        pytest.param(b'{"profiles":["other"],"profiles":["cpu"]}', id="two keys alike"),
        pytest.param(fleet.Case().signed()[1].replace(b'"wall_s":0', b'"wall_s":NaN', 1), id="NaN"),
        pytest.param(fleet.Case().signed()[1].replace(b'"wall_s":0', b'"wall_s":1e999', 1), id="endless"),
        pytest.param(fleet.Case().signed()[1] + b" ", id="a space"),
        pytest.param(b'{"profiles":["other"]}', id="no evidence"),
    ],
)
def test_signed_bytes_that_are_no_evidence_are_refused(data: bytes) -> None:
    case, given = _signs(data)
    assert refused(case, **given).cause == "malformed"


def test_a_number_that_no_record_can_hold_is_refused_and_breaks_nothing() -> None:
    runtime = fleet.runtime().model_copy(update={"intra_op_threads": 2**60})
    under = UnderProfile(profile="other", statistics=world.statistics(), runtimes=[runtime])
    value = json.loads(fleet.Case().signed()[1])
    value["submission"]["others"] = [json.loads(under.model_dump_json(by_alias=True))]
    value["submission"]["others"][0]["runtimes"][0]["intra_op_threads"] = str(2**60)
    case, given = _signs(canonical(value))
    assert refused(case, **given).cause == "malformed"


@pytest.mark.parametrize("figure", ["x", "0x10", "", "nan\n", "1_0", "1" * 41])
def test_a_figure_that_is_no_number_is_refused_and_breaks_nothing(figure: str) -> None:
    value = json.loads(fleet.Case().signed()[1])
    rows = value["submission"]["others"][0]["statistics"]["outputs"]
    rows[0]["max_abs"] = figure
    case, given = _signs(canonical(value))
    assert refused(case, **given).cause == "malformed"


def _other_manifest(case: fleet.Case) -> None:
    other = world.a_manifest(lambda table: table["models"][0]["outputs"][0].update(tolerance={"atol": 1.0}))
    case.examined = case.examined.model_copy(update={"manifest": other})


def _twice(case: fleet.Case) -> None:
    case.examined = case.examined.model_copy(update={"profiles": ["other", "cpu"]})


def _runs_for_another(case: fleet.Case) -> None:
    case.evidence(jobs=[*case.examined.submission.jobs, world.run(profile="cpu")])


def _later(**changes: Any) -> Change:
    """A statement that stays as it was, over evidence that says something else."""

    def change(case: fleet.Case) -> dict[str, Any]:
        one = case.examined.submission.model_copy(update=changes)
        data = case.examined.model_copy(update={"submission": one}).to_bytes()
        _, given = _signs(data)
        return given

    return change


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        pytest.param(_later(id="s-2"), "submission 's-2'", id="another submission inside"),
        pytest.param(_later(team="other"), "team 'other'", id="another team inside"),
        pytest.param(_later(sealed=world.sealed("more.bin")), "inventory", id="another inventory"),
        pytest.param(
            _later(
                sealed=world.sealed().model_copy(
                    update={
                        "files": [
                            one.model_copy(update={"native": "elf"}) if index == 0 else one
                            for index, one in enumerate(world.sealed().files)
                        ]
                    }
                )
            ),
            "inventory",
            id="another word about a file's first bytes",
        ),
        pytest.param(_later(walls=world.submission().walls | {"network": "unavailable"}), "walls", id="walls"),
        pytest.param(_later(wall_notes={"network": "none"}), "walls", id="other notes"),
        pytest.param(_later(runtimes=[fleet.runtime()]), "profile 'cpu'", id="the first profile's runtime"),
        pytest.param(
            _later(others=[UnderProfile(profile="other", runtimes=[fleet.runtime()])]),
            "runtime",
            id="another runtime",
        ),
        pytest.param(_later(profile="other"), "first profile", id="itself for the first profile"),
        pytest.param(_later(prior=Prior(status="none")), "another release", id="compared with nothing"),
        pytest.param(_later(contract=ContractStanding(status="signed")), "contract stands", id="contract"),
        pytest.param(_later(heldout=HeldOut(status="spent")), "judge's", id="held-out vectors that were passed"),
        pytest.param(_later(advisories=AdvisoryStanding(status="installed")), "judge's", id="its own advisories"),
        pytest.param(_later(inferred=["dims"]), "inferred", id="an inferred manifest"),
        pytest.param(
            _later(seal_failure=SealFailure(code="seal/link", where="x", message="y")),
            "sealed",
            id="a failed seal",
        ),
        pytest.param(
            _runs_for_another,
            "profile 'cpu'",
            id="a run under another profile",
        ),
        pytest.param(_other_manifest, "own job read", id="looser tolerances than the bundle declares"),
        pytest.param(
            lambda case: setattr(case, "examined", case.examined.model_copy(update={"manifest": None})),
            "without a manifest",
            id="no manifest",
        ),
        pytest.param(
            _twice,
            "other, cpu",
            id="two profiles at once",
        ),
    ],
)
def test_evidence_that_contradicts_its_statement_or_the_order_is_refused(lie: Change, words: str) -> None:
    case = fleet.Case()
    found = refused(case, **(lie(case) or {}))
    assert found.cause == "contradiction"
    assert words in str(found)


def test_the_contract_cannot_be_left_out() -> None:
    """Without it no ceiling, no signature and no held-out vector would count."""
    asked = fleet.order(contract_digest="c" * 64, standing=ContractStanding(status="signed"))
    due = Due(asked, "mosaic", world.sealed(), "cpu")
    case = fleet.Case(order=asked, due=due)
    found = refused(case)
    assert found.cause == "contradiction"
    assert "contract was left out" in str(found)
    case.examined = case.examined.model_copy(update={"contract_digest": "c" * 64})
    assert "stands otherwise" in str(refused(case))
    case.evidence(contract=ContractStanding(status="signed"))
    assert isinstance(case.open().examined, Examined)


def test_evidence_of_one_submission_is_none_of_another_with_the_same_bytes() -> None:
    """A team submits the same bundle again: what a worker said of the first counts for the first."""
    second = Due(fleet.order(submission="s-2"), "mosaic", world.sealed(), "cpu")
    assert refused(fleet.Case(due=second)).cause == "submission"


def test_evidence_of_one_order_is_none_of_the_next_one() -> None:
    changed = Due(fleet.order(round=2), "mosaic", world.sealed(), "cpu")
    assert refused(fleet.Case(due=changed)).cause == "round"
    same_round = Due(fleet.order(prior="9" * 64), "mosaic", world.sealed(), "cpu")
    assert refused(fleet.Case(due=same_round)).cause == "order"


def test_the_type_of_evidence_is_not_the_type_of_a_verdict() -> None:
    from acceptd.statement.schemas import ROLES

    assert EVIDENCE_TYPE not in ROLES  # no key of a keyring makes it count, nor does it stand for a verdict
    assert SEAL_TYPE not in ROLES
