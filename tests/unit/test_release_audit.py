"""What was changed by hand among the releases is found, each with its place: one test a manner of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.record.keys import load_keyring
from acceptd.release import audit, trust
from acceptd.release.book import read_book
from acceptd.release.signers import Auditor
from tests.release_world import MODEL, World, memory_directory, replace, resign

pytestmark = pytest.mark.unit


@pytest.fixture
def world() -> Iterator[World]:
    """Two releases of one model, a rollback to the first, and a revoked bundle."""
    root = memory_directory()
    made = World(root)
    made.released("1.0.0")
    made.released("2.0.0")
    made.rollback()
    made.revoke(made.accepted("9.0.0").digest)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(root)


def found(world: World, *, objects: bool = True) -> list[tuple[str, str, str]]:
    keys = Auditor(load_keyring(world.state))
    rows = audit.examine(world.state, world.ledger, keys, objects=objects)
    return [(row.what, row.where, row.message) for row in rows]


def test_an_honest_state_has_no_difference(world: World) -> None:
    assert found(world) == []


def link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def swap_current(world: World) -> str:
    link(world.channel_dir / "current", "000002")
    return "releases/mosaic/evidence-disposition/production/current"


def lose_current(world: World) -> str:
    (world.channel_dir / "current").unlink()
    return "releases/mosaic/evidence-disposition/production/current"


def swap_bundle(world: World) -> str:
    target = os.readlink(world.channel_dir / "000002" / "bundle")
    link(world.channel_dir / "000003" / "bundle", target)
    return "releases/mosaic/evidence-disposition/production/000003/bundle"


def copy_release(world: World) -> str:
    replace(world.release_file(2), world.release_file(1).read_bytes())
    return "releases/mosaic/evidence-disposition/production/000002/release.json"


def flip_a_byte_of_a_release(world: World) -> str:
    data = world.release_file(1).read_bytes()
    replace(world.release_file(1), data.replace(b"signatures", b"signaturez"))
    return "releases/mosaic/evidence-disposition/production/000001/release.json"


def old_channel(world: World) -> str:
    old = world.channel_file.read_bytes()
    world.released("3.0.0")
    replace(world.channel_file, old)
    return "releases/mosaic/evidence-disposition/production/channel.json"


def no_channel(world: World) -> str:
    world.channel_file.unlink()
    return "releases/mosaic/evidence-disposition/production/channel.json"


def a_number_by_hand(world: World) -> str:
    shutil.copytree(world.channel_dir / "000001", world.channel_dir / "000099", symlinks=True)
    return "releases/mosaic/evidence-disposition/production/000099"


def a_channel_by_hand(world: World) -> str:
    shutil.copytree(world.channel_dir, world.channel_dir.parent / "canary", symlinks=True)
    return "releases/mosaic/evidence-disposition/canary/current"


def fewer_revocations(world: World) -> str:
    world.revocations_file.unlink()
    return "revocations.json"


def edited_revocations(world: World) -> str:
    envelope = json.loads(world.revocations_file.read_bytes())
    envelope["signatures"] = []
    replace(world.revocations_file, json.dumps(envelope).encode())
    return "revocations.json"


def stored(world: World) -> Path:
    return next((world.state / "store" / "sha256").glob("*/model.onnx"))


def flip_a_stored_byte(world: World) -> str:
    path = stored(world)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.chmod(0o644)
    path.write_bytes(bytes(data))
    path.chmod(0o444)
    return f"store/sha256/{path.parent.name}"


def lose_a_stored_bundle(world: World) -> str:
    digest = Path(os.readlink(world.channel_dir / "000001" / "bundle")).name
    shutil.rmtree(world.state / "store" / "sha256" / digest)
    return f"store/sha256/{digest}"


def a_bundle_that_nobody_accepted(world: World) -> str:
    digest = world.accepted("5.0.0", verdict="rejected").digest
    return f"store/sha256/{digest}"


@pytest.mark.parametrize(
    "tamper",
    [
        swap_current, lose_current, swap_bundle, copy_release, flip_a_byte_of_a_release, old_channel, no_channel,
        a_number_by_hand, a_channel_by_hand, fewer_revocations, edited_revocations, flip_a_stored_byte,
        lose_a_stored_bundle, a_bundle_that_nobody_accepted,
    ],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_found_with_its_place(tamper: Callable[[World], str], world: World) -> None:
    where = tamper(world)
    assert where in {place for _, place, _ in found(world)}


def test_a_link_is_told_with_what_it_leads_to_and_what_the_ledger_says(world: World) -> None:
    swapped = swap_bundle(world)
    other = os.readlink(world.channel_dir / "000003" / "bundle")
    (world.channel_dir / "000001" / "bundle").unlink()
    current = swap_current(world)
    digests = {row.number: row.digest for row in read_book(world.ledger).rows(MODEL, "production")}
    lost = swapped.replace("000003", "000001")
    assert {(where, message) for _, where, message in found(world) if where in {swapped, lost, current}} == {
        (swapped, f"points at {other}, the ledger says {digests[3]}"),
        (lost, f"points at nothing, the ledger says {digests[1]}"),
        (current, "points at 000002, the ledger says 000003"),
    }


def test_without_hashing_sizes_and_names_are_still_compared(world: World) -> None:
    flip_a_stored_byte(world)
    assert found(world, objects=False) == []
    path = stored(world)
    path.chmod(0o644)
    path.write_bytes(b"")
    path.chmod(0o444)
    assert found(world, objects=False) != []


def test_an_audit_names_what_the_disk_does_not_give_and_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise OSError(5, "Input/output error", str(world.channel_file))

    monkeypatch.setattr(audit, "_channel", broken)
    monkeypatch.setattr(audit, "_revocations", broken)
    found = audit.examine(world.state, world.ledger, world.keys)
    place = str(world.channel_file.relative_to(world.state))
    assert [(one.what, one.where, one.message) for one in found[:2]] == [
        ("release", place, "Input/output error")
    ] * 2


def test_an_audit_tells_a_channel_that_announces_another_release_of_the_same_number(world: World) -> None:
    change = {"release_digest": "0" * 64}
    resign(world, world.channel_file, lambda payload: payload.update(change), trust.CHANNEL_TYPE)
    found = audit.examine(world.state, world.ledger, world.keys)
    assert "announces another release.json than the ledger's entry" in [one.message for one in found]
