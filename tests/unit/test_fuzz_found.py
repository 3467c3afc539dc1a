"""What fuzzing found, where it would have hurt: commands, loaders, a promoter, a notary, a spoilt parent."""

from __future__ import annotations

import hashlib
import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from acceptd.cell import launcher
from acceptd.cell.supply import WarmParent
from acceptd.compare import protocol
from acceptd.compare.service import answer
from acceptd.config import load_settings
from acceptd.errors import (
    ConfigError,
    FleetTrustError,
    InternalError,
    MalformedError,
    ObjectDamagedError,
    UsageError,
)
from acceptd.fleet.examined import prior_of
from acceptd.fleet.seal import open_seal, sign_seal
from acceptd.objectstore import inventory
from acceptd.policy.load import load_file, load_policy, load_profile, load_reviewers, read_table, with_overrides
from acceptd.policy.manifest import InputSpec
from acceptd.policy.policy import Policy
from acceptd.record import attest
from acceptd.record.anchor import Journal
from acceptd.record.canonical import canonical
from acceptd.record.keys import create_keys, load_keyring, load_signer
from acceptd.record.log import Ledger
from acceptd.record.notary import Notary
from acceptd.release import memory, receipt, trust
from acceptd.retention.objects import marks_of
from acceptd.statement.fleet import EVIDENCE_TYPE, SEAL_TYPE
from tests import fleet_evidence as fleet
from tests.release_world import MODEL, World, payload_of, put_signed, repoint

pytestmark = pytest.mark.unit

DIGITS = "9" * 4400
DOTS = ".a" * 3000
SHIFTED = {
    "a number of thousands of digits": f"x = {DIGITS}\n",
    "one in an array": f"[t]\nx = [1, {DIGITS}]\n",
    "a key of thousands of parts": f"x{DOTS} = 1\n",
    "a table of as many": f"[x{DOTS}]\n",
    "a word with parts where one of few is meant": f"optimisation{DOTS} = 1\n",
}


@pytest.mark.parametrize("name", SHIFTED)
def test_toml_that_no_hand_wrote_is_one_line_in_every_file_of_the_operators(name: str, tmp_path: Path) -> None:
    for file in ("acceptd.toml", "reviewers.toml", "some.toml"):
        (tmp_path / file).write_text(SHIFTED[name])
        (tmp_path / file).chmod(0o600)
    some = tmp_path / "some.toml"
    for read in (
        lambda: load_settings(tmp_path),
        lambda: load_reviewers(tmp_path),
        lambda: load_file(some),
        lambda: load_profile(some),
    ):
        with pytest.raises(ConfigError) as refused:
            read()
        assert str(tmp_path) in str(refused.value)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 1000
    table, troubles = read_table(some, Policy)
    assert table is None
    assert len(troubles) == 1


def test_a_key_of_many_parts_takes_no_memory_for_each_beginning_of_it(tmp_path: Path) -> None:
    import tracemalloc

    (tmp_path / "p.toml").write_text(f"x{'.a' * 4000} = 1\n")
    (tmp_path / "p.toml").chmod(0o600)
    tracemalloc.start()
    try:
        assert read_table(tmp_path / "p.toml", Policy)[1][0].message.startswith("nested too deeply")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [DIGITS, "{x" + DOTS + " = 1}", "[" * 80 + "]" * 80])
def test_a_value_that_set_cannot_mean_is_a_usage_error(value: str) -> None:
    with pytest.raises(UsageError):
        with_overrides(Policy(), [f"limits.files={value}"])


# -- signed files behind a signature that holds


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.released("1.0.0")
    yield made
    made.close()


def test_a_digest_written_as_a_number_revokes_nothing_unseen(world: World) -> None:
    assert world.keys.revocation is not None
    rows = '[{"digest":' + "1" * 64 + ',"reason":"it bites","at":"2026-11-29T11:57:00Z"}]'
    payload = f'{{"schema":1,"number":9,"issued_at":"2026-11-29T11:57:00Z","revoked":{rows}}}'.encode()
    put_signed(world.revocations_file, payload, trust.REVOCATIONS_TYPE, world.keys.revocation)
    with pytest.raises(MalformedError, match="no digest"):
        world.open()


def test_a_loaders_memory_holds_digests_and_no_numbers(tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    row = f'{{"number":2,"release_digest":{"1" * 64},"sequence":7}}'
    seen.write_text(f'{{"schema":1,"revocations":1,"channels":{{"{MODEL}:production":{row}}}}}')
    with pytest.raises(MalformedError, match="damaged"):
        memory.recall(tmp_path, f"{MODEL}:production", seen)


@pytest.mark.parametrize("labels", ["5", "[1e400]", "[99999999999999999999]", '{"a":1}'])
def test_labels_that_are_none_behind_a_valid_signature_end_no_loader(world: World, labels: str) -> None:
    payload = payload_of(world.release_file(1))
    payload["manifest"]["models"][0]["outputs"] = [{"name": "y", "labels": "LABELS"}]
    text = json.dumps(payload).replace('"LABELS"', labels)
    put_signed(world.release_file(1), text.encode(), trust.RELEASE_TYPE, world.keys.release)
    repoint(world, 1)
    memory.forget()
    with pytest.raises(MalformedError):
        world.open()


@pytest.mark.parametrize("size", ["9007199254740992", "9" * 400, "1e3"])
def test_a_size_that_no_digest_is_made_of_is_malformed_in_a_release_and_damaged_in_a_store(
    world: World, size: str
) -> None:
    payload = payload_of(world.release_file(1))
    payload["files"][0]["size"] = "SIZE"
    put_signed(
        world.release_file(1),
        json.dumps(payload).replace('"SIZE"', size).encode(),
        trust.RELEASE_TYPE,
        world.keys.release,
    )
    repoint(world, 1)
    memory.forget()
    with pytest.raises(MalformedError, match="size"):
        world.open()
    listed = f'[{{"path":"a","sha256":"{"1" * 64}","size":{size}}}]'.encode()
    with pytest.raises(ObjectDamagedError):
        inventory.opened(listed, hashlib.sha256(listed).hexdigest(), 1 << 62)


@pytest.mark.parametrize("text", [b'{"a":1e400}', b"[-1e999]", b'{"a":[{"b":1E+309}]}'])
def test_what_is_read_as_infinity_is_no_strict_json_in_files_and_receipts(text: bytes) -> None:
    with pytest.raises(MalformedError, match="strict JSON"):
        trust.parse_json(text, "a file")
    with pytest.raises(MalformedError, match="strict JSON"):
        receipt.parse(text)


# -- a node of a fleet that the policy trusts, and that has fallen


def _signed(envelope: str, kind: str, key: str, moment: str) -> str:
    said = json.loads(attest.unverified(json.loads(envelope))[0])
    assert said["predicateType"] == kind
    said["predicate"][key] = moment
    return canonical(attest.sign(attest.PAYLOAD_TYPE, canonical(said), fleet.signer("gpu-1"))).decode()


@pytest.mark.parametrize("moment", ["2026-99-99T00:00:00Z", "2026-02-30T00:00:00Z", "0000-01-01T00:00:00Z"])
def test_a_trusted_worker_that_signs_a_day_that_never_is_has_its_evidence_refused(moment: str) -> None:
    case = fleet.Case()
    envelope, data = case.signed()
    for key in ("started_at", "ended_at"):
        with pytest.raises(FleetTrustError) as refused:
            case.open(_signed(envelope, EVIDENCE_TYPE, key, moment), data)
        assert refused.value.cause == "malformed"
        assert key in refused.value.message


def test_a_trusted_intake_that_signs_such_a_day_has_its_seal_refused() -> None:
    from fuzz import fleet as fuzzed

    whole = fuzzed.seeds()["seal"]["file"].decode()
    assert fuzzed._open_seal(whole.encode()).predicate.sealed_at
    with pytest.raises(FleetTrustError) as refused:
        fuzzed._open_seal(_signed(whole, SEAL_TYPE, "sealed_at", "2026-13-01T00:00:00Z").encode())
    assert refused.value.cause == "malformed"


@pytest.mark.parametrize("data", [b'{"status": "none"}', b'{"status":"perhaps"}', b"[" * 300, b"\xff"])
def test_a_prior_release_of_no_form_is_malformed_and_never_storage_that_is_away(data: bytes) -> None:
    with pytest.raises(MalformedError, match="prior release"):
        prior_of(data)


def test_a_mark_of_a_day_that_never_is_ends_no_round_of_retention() -> None:
    good, bad = {"1" * 64: "2026-11-29T12:00:00Z"}, {"2" * 64: "2026-99-99T00:00:00Z", "3" * 64: 5, "x": "y"}
    assert marks_of(json.dumps(good | bad).encode()) == good
    assert marks_of(b"[" * 100_000) == marks_of(b"[1]") == {}


def test_a_fallen_intake_that_seals_sizes_without_end_is_refused_and_no_storage_that_is_away() -> None:
    from fuzz import fleet as fuzzed

    first, *others = fuzzed.BUNDLE.files
    huge = fuzzed.BUNDLE.model_copy(update={"files": [first.model_copy(update={"size": 2**53}), *others]})
    huge = huge.model_copy(update={"total_bytes": 2**53 - 1})
    model = "mosaic/evidence-disposition"
    given: dict[str, Any] = {
        "submission": "s-1", "team": "mosaic", "drop": "d", "uid": 0, "sealed": huge, "jobs": (), "model": model,
    }  # fmt: skip
    envelope = sign_seal(fleet.signer("gpu-1"), fleet.node("gpu-1"), at="2026-07-01T11:00:00Z", **given)
    for total in (2**53 - 1, sum(one.size for one in huge.files)):
        given["sealed"] = huge.model_copy(update={"total_bytes": total})
        with pytest.raises(FleetTrustError) as refused:
            open_seal(envelope, fuzzed.INTAKE, **given)
        assert refused.value.cause == "bundle"


# -- what stands outside, and what acceptd told itself


@pytest.mark.parametrize("row", ['{"CHECKPOINT_SIZE":1e400,"CHECKPOINT_NOTE":""}', "[" * 100_000])
def test_a_journal_with_rows_of_no_form_is_an_anchor_out_of_reach_and_ends_no_daemon(
    row: str, tmp_path: Path
) -> None:
    (tmp_path / "rows").write_text(row + "\n")
    reader = tmp_path / "reader"
    reader.write_text(f"#!/bin/sh\ncat {tmp_path}/rows\n")
    reader.chmod(0o755)
    state = tmp_path / "state"
    state.mkdir()
    create_keys(state)
    assert load_keyring(state).keys
    with Ledger.open(state) as ledger:
        journal = Journal(str(tmp_path / "none"), str(reader))
        notary = Notary(state, ledger, load_signer(state, "ledger"), journal, lambda _: None)
        ledger.append("note", {})
        notary.seal()
        assert notary.standing == "unanchored: the anchor is out of reach"


HELLOS = [b"", b"[]", b"{}", b"[" * 100_000, b'{"mapped":5}', b"9" * 5000]


@pytest.mark.parametrize("hello", HELLOS)
def test_a_warm_parent_that_says_nothing_of_the_form_is_one_that_did_not_start(hello: bytes) -> None:
    with pytest.raises(InternalError, match="hello"):
        launcher.hello_of(hello)


def test_a_hello_of_the_form_is_read_and_numbers_without_end_are_none() -> None:
    words = ("python", "implementation", "machine", "onnxruntime", "build", "numpy", "telemetry")
    said: dict[str, Any] = dict.fromkeys(words, "1") | {
        "available_providers": [], "threads": 1, "mapped": {"/a": [1, 2]}, "anonymous": 5, "resident": 6,
    }  # fmt: skip
    told, anonymous, resident = launcher.hello_of(json.dumps(said).encode())
    assert (told.mapped, anonymous, resident) == ({"/a": (1, 2)}, 5, 6)
    for key, value in (("anonymous", "1e400"), ("threads", "1e400"), ("mapped", '{"/a":[1e400,1]}')):
        with pytest.raises(InternalError, match="hello"):
            launcher.hello_of(json.dumps(said | {key: "HERE"}).replace('"HERE"', value).encode())
    with pytest.raises(InternalError, match="2 threads"):
        launcher.hello_of(json.dumps(said | {"threads": 2}).encode())


@pytest.mark.parametrize("answer", [b"P" + b"[" * 4000, b'P{"threads":1e400,"anonymous":1,"children":1}'])
def test_a_parent_that_answers_without_form_is_ill_and_its_asker_is_not(answer: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.send(answer)
        parent: Any = SimpleNamespace(control=ours, anonymous=0)
        assert WarmParent(parent, SimpleNamespace(), (0, 0)).ailment().startswith("silent: ")  # type: ignore[arg-type]


@pytest.mark.parametrize("payload", [b"[" * 100_000, b"{", b"\xff", b"[]", b"9" * 5000])
def test_a_comparer_that_says_what_is_no_json_has_closed(payload: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(struct.pack("!IB", len(payload), 0) + payload)
        with pytest.raises(protocol.ClosedError):
            protocol.receive(ours)


@pytest.mark.parametrize("said", ["{ severity = 'warn' }", "['warn']", "1"], ids=["table", "list", "number"])
def test_a_severity_that_is_no_word_is_one_line_with_its_place(said: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(f'schema = 1\nname = "own"\n[severity]\n"cell/lost" = {said}\n', "utf-8")
    _, troubles = read_table(path, Policy)
    assert {(one.line, one.key) for one in troubles} == {(4, "severity.cell/lost")}
    with pytest.raises(ConfigError, match=r"policy\.toml:4: severity\.cell/lost"):
        load_policy(path)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_a_job_that_says_a_range_without_an_end_has_declared_no_input(number: str) -> None:
    said = {"name": "x", "dtype": "float32", "shape": [1], "range": [float(number), 1.0]}
    with pytest.raises(ValidationError, match="finite"):
        InputSpec.model_validate(said)


@pytest.mark.parametrize("key", ["atol", "rtol", "low", "high"])
@pytest.mark.parametrize("number", ["NaN", "1e400"])
def test_a_comparison_with_a_bound_that_is_no_number_is_no_task(key: str, number: str) -> None:
    """Statistics of such a task could not be written as JSON; a range that ends nowhere has no worst element."""
    value = {"kind": "tensor", "dtype": "float32", "shape": [1], "offset": 0, "nbytes": 4}
    part = {"file": "f", "value": value}
    asked: dict[str, Any] = {"set": "s", "model": "main"}
    pair = asked | {"output": "y", "against": "golden", "expected": part, "got": part, "rtol": 0.0, "atol": 0.0}
    bounded = asked | {"input": "x", "value": part, "low": 0.0, "high": 1.0}
    (pair if key in pair else bounded)[key] = json.loads(number)
    message = {"id": 1, "task": {"pairs": [pair], "inputs": [bounded]}, "files": ["f"]}
    assert "finite number" in str(answer(message, [0])["error"])
