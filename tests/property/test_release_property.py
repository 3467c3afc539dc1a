"""Properties: digests agree between rooms, numbers only rise, and hostile bytes only meet our own errors."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acceptd.errors import InvalidInputError, LoaderError, ReleaseError
from acceptd.evidence import BundleFile
from acceptd.intake.seal import bundle_digest
from acceptd.record import attest
from acceptd.record.canonical import canonical
from acceptd.record.keys import Keyring, Signer
from acceptd.release import grammar, memory, trust
from acceptd.release.interface import Spec, check_literal
from acceptd.release.promote import Release
from acceptd.release.trust import ChannelFacts, File, Remembered
from tests.release_world import MODEL, World

pytestmark = pytest.mark.property

SIGNER = Signer.of("release", Ed25519PrivateKey.from_private_bytes(b"\7" * 32))
KEYRING = Keyring((SIGNER.public_key(),))
QUICK = settings(max_examples=150, deadline=None)

paths = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\\/"), min_size=1, max_size=12
).filter(lambda part: part not in {".", ".."})
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@QUICK
@given(st.dictionaries(paths, st.tuples(digests, st.integers(0, 2**53 - 1)), max_size=8))
def test_both_rooms_compute_one_bundle_digest(rows: dict[str, tuple[str, int]]) -> None:
    ours = [File(path, sha256, size) for path, (sha256, size) in rows.items()]
    theirs = [BundleFile(path=path, sha256=sha256, size=size) for path, (sha256, size) in rows.items()]
    assert trust.bundle_digest(ours) == bundle_digest(theirs)


NEAR_NAMES = st.text("az09_-AZ. \n\0é٣", max_size=66) | st.from_regex(grammar.NAME, fullmatch=True)
NEAR_DIGESTS = st.text("09afAFg \n٣", min_size=63, max_size=65) | digests
NEAR_STAMPS = st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\n?") | st.datetimes().map(
    lambda one: one.strftime("%Y-%m-%dT%H:%M:%SZ")
)


@QUICK
@given(NEAR_NAMES, NEAR_DIGESTS)
def test_a_loader_takes_the_names_and_digests_of_the_patterns_and_no_others(name: str, sha256: str) -> None:
    assert trust.is_name(name) == (grammar.NAME.fullmatch(name) is not None)
    assert trust.is_sha256(sha256) == (grammar.SHA256.fullmatch(sha256) is not None)


@QUICK
@given(NEAR_STAMPS)
def test_a_loader_reads_each_time_as_the_calendar_does_and_no_other_text(stamp: str) -> None:
    try:
        meant = datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        meant = None
    if meant is None or not grammar.STAMP.fullmatch(stamp):
        with pytest.raises(ValueError, match=r"."):
            trust.epoch(stamp)
    else:
        assert trust.epoch(stamp) == meant


@QUICK
@given(st.binary(max_size=300))
def test_arbitrary_bytes_meet_only_our_errors(data: bytes) -> None:
    facts = ChannelFacts(MODEL, "production", 1, trust.sha256(data), 0, 1, 1e12, "")
    with pytest.raises(LoaderError):
        trust.channel(data, KEYRING, model_id=MODEL, name="production", now=0, remembered=Remembered())
    with pytest.raises(LoaderError):
        trust.revocations(data, KEYRING, least=0, remembered=0)
    with pytest.raises(LoaderError):
        trust.release(data, KEYRING, facts)


@QUICK
@given(json_values)
def test_arbitrary_signed_json_meets_only_our_errors(value: Any) -> None:
    data = canonical(attest.sign(trust.CHANNEL_TYPE, canonical(value), SIGNER))
    with pytest.raises(LoaderError):
        trust.channel(data, KEYRING, model_id=MODEL, name="production", now=0, remembered=Remembered())
    payload = canonical(value)
    with pytest.raises(LoaderError):
        trust.read_release(payload)
    with pytest.raises(LoaderError):
        trust.read_revocations(payload)


@QUICK
@given(
    st.integers(1, 9), st.integers(1, 9), st.sampled_from("ab"),
    st.integers(0, 9), st.integers(0, 9), st.sampled_from("ab"), st.integers(0, 20),
)  # fmt: skip
def test_a_channel_is_believed_exactly_when_nothing_falls(
    number: int, sequence: int, release: str, seen: int, seen_sequence: int, seen_release: str, now: int
) -> None:
    payload = {
        "schema": 1, "model_id": MODEL, "channel": "production", "number": number,
        "release_digest": release * 64, "least_revocations": 0, "sequence": sequence,
        "issued_at": "1970-01-01T00:00:00Z", "expires_at": "1970-01-01T00:00:10Z",
    }  # fmt: skip
    data = canonical(attest.sign(trust.CHANNEL_TYPE, canonical(payload), SIGNER))
    known = Remembered(seen, seen_release * 64, seen_sequence, 0)
    believable = (
        now < 10 and sequence >= seen_sequence and (number > seen or (number == seen and release == seen_release))
    )
    try:
        trust.channel(data, KEYRING, model_id=MODEL, name="production", now=now, remembered=known)
    except LoaderError:
        assert not believable
    else:
        assert believable


@QUICK
@given(
    st.lists(
        st.builds(
            Remembered,
            st.integers(0, 9),
            st.sampled_from(["a" * 64, "b" * 64]),
            st.integers(0, 9),
            st.integers(0, 9),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_memory_never_falls(seen: list[Remembered]) -> None:
    known = Remembered()
    for item in seen:
        after = known.joined(item)
        for name in ("number", "sequence", "revocations"):
            assert getattr(after, name) == max(getattr(known, name), getattr(item, name))
        known = after


nested = st.recursive(
    st.floats() | st.integers() | st.text(max_size=3) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=20,
)


@QUICK
@given(nested)
def test_what_the_literal_check_lets_through_is_the_tensor_that_was_declared(value: Any) -> None:
    spec = Spec("x", "float32", "tensor", ("batch", 2), range=(-1.0, 1.0))
    try:
        shape = check_literal(spec, value, {"batch": (1, 3)}, {})
    except InvalidInputError:
        return
    array = np.array(value, np.float32)
    assert array.shape == shape
    assert 1 <= shape[0] <= 3
    assert np.isfinite(array).all()
    assert (np.abs(array) <= 1).all()


@QUICK
@given(st.lists(st.lists(st.floats(-1, 1), min_size=2, max_size=2), min_size=1, max_size=3))
def test_the_literal_check_lets_every_declared_tensor_through(value: list[list[float]]) -> None:
    spec = Spec("x", "float32", "tensor", ("batch", 2), range=(-1.0, 1.0))
    assert check_literal(spec, value, {"batch": (1, 3)}, {}) == (len(value), 2)


steps = st.lists(
    st.tuples(st.sampled_from(["promote", "rollback", "revoke", "revoke-rollback"]), st.integers(0, 3)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_any_history_keeps_loader_ledger_and_link_together(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, int]]
) -> None:
    """A model of the room: a list of numbers and a set of revoked digests, beside the real thing."""
    world = World(tmp_path_factory.mktemp("history"))
    state_file = world.root / "seen.json"
    bundles = [world.accepted(f"{n}.0.0") for n in range(4)]
    current, highest, revoked = "", 0, set[str]()
    for action, index in history:
        digest = bundles[index].digest
        world.now += 1
        release: Release | None
        try:
            if action == "promote":
                release = world.promote(bundles[index])
                assert release.bundle_digest == digest
                assert digest not in revoked
            elif action == "rollback":
                release = world.rollback()
                assert release.bundle_digest not in revoked | {current}
            else:
                done = world.revoke(digest, rollback=action == "revoke-rollback")
                revoked.add(digest)
                release = done.rollbacks[0] if done.rollbacks else None
        except ReleaseError:
            continue
        if release is not None and release.new:
            assert release.number == highest + 1
            highest, current = release.number, release.bundle_digest
        if highest and current not in revoked:
            opened = world.open(state_file=state_file)
            assert (opened.number, opened.bundle_digest) == (highest, current)
            assert json.loads(state_file.read_bytes())["channels"][f"{MODEL}:production"]["number"] == highest
            assert Path(world.channel_dir / "current").readlink().name == f"{highest:06d}"
    world.close()
    memory.forget()
