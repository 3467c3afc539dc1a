"""Attacks on the loader by documents of another form: JSON, file lists, proofs, and refreshing what is false."""

from __future__ import annotations

import base64
import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import (
    DigestMismatchError,
    ExpiredError,
    MalformedError,
    SignatureError,
)
from acceptd.export.document import opened as export_opened
from acceptd.release import channel as channels
from acceptd.release import memory, trust
from tests.release_world import MODEL, World, payload_of, put_signed, replace, repoint, resign

pytestmark = pytest.mark.hostile


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def released(world: World) -> World:
    world.released("1.0.0")
    assert world.open().number == 1
    return world


def _resigned(world: World, key: str, value: object) -> None:
    """Change one member of release.json and let the channel name the result, all validly signed."""

    def change(payload: dict[str, Any]) -> None:
        payload[key] = value

    resign(world, world.release_file(1), change, trust.RELEASE_TYPE)
    repoint(world, 1)
    memory.forget()


# Hostile JSON, before and behind a valid signature

HOSTILE_JSON = {
    "empty": b"",
    "text": b"release",
    "array": b"[]",
    "deep": b"[" * 50_000,
    "deep-object": b'{"payload":' * 50_000,
    "not-utf-8": b'{"a":"\xff"}',
    "nan": b'{"payload":NaN}',
    "duplicate": b'{"payload":"","payload":"","payloadType":"","signatures":[]}',
    "surrogate": b'{"payload":"\\ud800","payloadType":"x","signatures":[]}',
    "wrong-types": b'{"payload":1,"payloadType":2,"signatures":3}',
    "number": b"9" * 5000,
    "not-base64": json.dumps({"payload": "%%", "payloadType": trust.CHANNEL_TYPE, "signatures": []}).encode(),
    "bad-signatures": json.dumps(
        {"payload": "", "payloadType": trust.CHANNEL_TYPE, "signatures": [1, None]}
    ).encode(),
}


@pytest.mark.parametrize("name", HOSTILE_JSON)
def test_malformed_json_as_channel(released: World, name: str) -> None:
    replace(released.channel_file, HOSTILE_JSON[name])
    with pytest.raises(MalformedError):
        released.open()


@pytest.mark.parametrize("name", HOSTILE_JSON)
def test_malformed_json_as_revocation_list(released: World, name: str) -> None:
    released.revocations_file.write_bytes(HOSTILE_JSON[name])
    with pytest.raises(MalformedError):
        released.open()


@pytest.mark.parametrize("name", [n for n in HOSTILE_JSON if n not in {"not-base64", "bad-signatures"}])
def test_malformed_json_behind_a_valid_signature(released: World, name: str) -> None:
    put_signed(released.channel_file, HOSTILE_JSON[name], trust.CHANNEL_TYPE, released.keys.release)
    with pytest.raises(MalformedError):
        released.open()


WIDE = {
    "lists": b"[" + b"[]," * (2 << 20),
    "members": b"{" + b'"":0,' * (1 << 20),
    "numbers": b"[" + b"0," * (3 << 20),
}


@pytest.mark.parametrize("name", WIDE)
def test_wide_json_without_a_signature_costs_no_more_memory_than_its_bytes(released: World, name: str) -> None:
    for read in (
        lambda data: trust.revocations(data, released.keys.keyring, least=0, remembered=0),
        lambda data: export_opened(data, data, released.keys.keyring),
    ):
        tracemalloc.start()
        try:
            with pytest.raises(MalformedError, match="no DSSE envelope"):
                read(WIDE[name])
            assert tracemalloc.get_traced_memory()[1] < len(WIDE[name])
        finally:
            tracemalloc.stop()


def test_huge_channel_is_measured_before_it_is_read(released: World) -> None:
    os.truncate(released.channel_file, trust.MAX_CHANNEL_BYTES + 1)
    with pytest.raises(MalformedError, match="larger than"):
        released.open()
    os.truncate(released.channel_file, 1 << 40)  # sparse: reading it would never end
    with pytest.raises(MalformedError, match="larger than"):
        released.open()


@pytest.mark.parametrize("name", ["release", "revocations", "rotations"])
def test_huge_signed_file_is_measured_before_it_is_hashed_or_parsed(released: World, name: str) -> None:
    released.revoke("0" * 64)
    path = {
        "release": released.release_file(1),
        "revocations": released.revocations_file,
        "rotations": released.state / "rotations.json",
    }[name]
    path.unlink(missing_ok=True)
    path.touch()
    os.truncate(path, 1 << 40)  # sparse: reading it would never end
    with pytest.raises(MalformedError, match="larger than"):
        released.open()


def test_release_is_compared_by_digest_before_it_is_parsed(released: World) -> None:
    replace(released.release_file(1), b"[" * 50_000)
    with pytest.raises(DigestMismatchError):
        released.open()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("number", 0),
        ("number", -1),
        ("number", "1"),
        ("number", True),
        ("number", 1.0),
        ("number", 10**6),
        ("number", 2**60),
        ("release_digest", "../x"),
        ("release_digest", None),
        ("sequence", 0),
        ("least_revocations", -1),
        ("expires_at", "2099-01-01"),
        ("expires_at", "2099-13-01T00:00:00Z"),
        ("expires_at", 4_000_000_000),
        ("schema", 2),
        ("channel", "../production"),
        ("model_id", ["mosaic"]),
    ],
)
def test_signed_channel_of_another_form(released: World, key: str, value: object) -> None:
    def change(payload: dict[str, Any]) -> None:
        payload[key] = value

    payload = payload_of(released.channel_file)
    change(payload)
    data = json.dumps(payload).encode()
    put_signed(released.channel_file, data, trust.CHANNEL_TYPE, released.keys.release)
    with pytest.raises(MalformedError):
        released.open()


# Inside release.json


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a//b", "a/./b", "", ".", "a\\b", "a\0b", "data/../../../x"]
)
def test_path_in_a_file_name_of_the_release(released: World, path: str) -> None:
    files = payload_of(released.release_file(1))["files"]
    _resigned(released, "files", [{**files[0], "path": path}, *files[1:]])
    with pytest.raises(MalformedError, match="no path inside"):
        released.open()


@pytest.mark.parametrize("value", [[], [1], [{"path": "a"}], "model.onnx", None, {}])
def test_file_list_of_another_form(released: World, value: object) -> None:
    _resigned(released, "files", value)
    with pytest.raises((MalformedError, DigestMismatchError)):
        released.open()


def test_file_list_that_does_not_give_the_bundle_digest(released: World) -> None:
    files = payload_of(released.release_file(1))["files"]
    _resigned(released, "files", files[:1])
    with pytest.raises(DigestMismatchError, match="do not give"):
        released.open()


def test_file_listed_twice(released: World) -> None:
    files = payload_of(released.release_file(1))["files"]
    _resigned(released, "files", [*files, files[0]])
    with pytest.raises(MalformedError, match="twice"):
        released.open()


def test_proof_of_another_promotion(released: World) -> None:
    released.released("2.0.0")
    other = payload_of(released.release_file(2))["inclusion"]
    _resigned(released, "inclusion", other)
    with pytest.raises(DigestMismatchError, match="another promotion"):
        released.open()


@pytest.mark.parametrize("member", ["root", "path", "size", "leaf"])
def test_forged_proof(released: World, member: str) -> None:
    inclusion = dict(payload_of(released.release_file(1))["inclusion"])
    forged = {
        "root": "0" * 64,
        "path": [*inclusion["path"][1:], "0" * 64],
        "size": inclusion["size"] + 40,
        "leaf": base64.b64encode(base64.b64decode(inclusion["leaf"]).replace(b"a test", b"a lie!")).decode(),
    }
    assert forged[member] != inclusion[member]
    _resigned(released, "inclusion", {**inclusion, member: forged[member]})
    with pytest.raises(DigestMismatchError, match="does not hold"):
        released.open()


@pytest.mark.parametrize(
    "value", [1, "x", {}, {"leaf": "%"}, {"leaf": "W10=", "seq": 1, "size": 2, "root": "", "path": []}]
)
def test_proof_of_another_form(released: World, value: object) -> None:
    _resigned(released, "inclusion", value)
    with pytest.raises(MalformedError, match="proof"):
        released.open()


def test_release_without_a_proof_says_so(released: World) -> None:
    assert released.open(demand_checkpoint=True).proof == "signed"
    _resigned(released, "checkpoint", "")
    assert released.open().proof == "unsigned"
    _resigned(released, "inclusion", None)
    assert released.open().proof == "absent"
    with pytest.raises(SignatureError, match="no checkpoint"):
        released.open(demand_checkpoint=True)


# What the daemon signs


def test_refresh_gives_no_new_date_to_a_replayed_channel(released: World) -> None:
    old = released.channel_file.read_bytes()
    released.released("2.0.0")
    replace(released.channel_file, old)
    released.now += 3000
    channels.refresh(
        released.state, released.ledger, released.keys, valid_seconds=3600, clock=lambda: released.now
    )
    assert released.open().number == 2


def test_refresh_signs_nothing_over_a_changed_release(released: World) -> None:
    release = released.release_file(1)
    replace(release, release.read_bytes().replace(b"a", b"b", 1))
    done = channels.refresh(released.state, released.ledger, released.keys, clock=lambda: released.now, force=True)
    assert done.renewed == ()
    assert MODEL in done.problems[0]
    released.now += 3600
    with pytest.raises(ExpiredError):
        released.open()
