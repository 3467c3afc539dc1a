"""Attacks on what a release carries of the ledger, and on the identities that a caller compares."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd import key_rotation, loader_runtime
from acceptd.errors import (
    DigestMismatchError,
    LedgerError,
    MalformedError,
    RuntimeDifferenceWarning,
    RuntimeMismatchError,
    SignatureError,
)
from acceptd.record import note
from acceptd.record.canonical import digest
from acceptd.record.keys import Keyring, Signer, load_keyring, load_signer
from acceptd.release import memory, trust
from acceptd.release.model import SessionOptions
from examples.evidence_classifier import build_model, manifest
from tests.release_world import World, payload_of, repoint, resign

pytestmark = pytest.mark.hostile


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.released(files={"model.onnx": build_model()}, manifest=manifest())
    assert made.open(demand_checkpoint=True).proof == "signed"
    yield made
    made.close()


def resigned(world: World, **members: Any) -> None:
    """Change members of release.json, validly signed by the release key, and let the channel name the result."""
    resign(world, world.release_file(1), lambda payload: payload.update(members), trust.RELEASE_TYPE)
    repoint(world, 1)
    memory.forget()


def head(world: World) -> note.Checkpoint:
    return note.parse(payload_of(world.release_file(1))["checkpoint"].encode())[0]


def noted(world: World, signer: Signer, **changes: Any) -> str:
    said = head(world)
    facts = {"origin": said.origin, "size": said.size, "root": said.root} | changes
    return note.sign(note.Checkpoint(**facts), signer).decode()


def test_a_checkpoint_by_a_stranger_or_by_the_release_key(world: World) -> None:
    stranger = Signer.of("ledger", Ed25519PrivateKey.generate())
    for signer in (stranger, world.keys.release):
        resigned(world, checkpoint=noted(world, signer))
        with pytest.raises(SignatureError, match="checkpoint"):
            world.open()


@pytest.mark.parametrize("changes", [{"size": 9}, {"root": bytes(32)}])
def test_mix_and_match_checkpoint_of_another_tree(world: World, changes: dict[str, Any]) -> None:
    resigned(world, checkpoint=noted(world, load_signer(world.state, "ledger"), **changes))
    with pytest.raises(DigestMismatchError, match="another tree"):
        world.open()


def test_stripped_signature_of_the_checkpoint(world: World) -> None:
    text, _, _ = noted(world, load_signer(world.state, "ledger")).rpartition("\n\n")
    for signed in (f"{text}\n\n", f"{text}\n\n\u2014 x AAAAAAA=\n", text, "x", "\n" * 9000, 7, ["a"]):
        resigned(world, checkpoint=signed)
        with pytest.raises((MalformedError, SignatureError)):
            world.open()


def test_stripped_checkpoint_is_noticed_by_who_demands_one(world: World) -> None:
    resigned(world, checkpoint="")
    assert world.open().proof == "unsigned"
    with pytest.raises(SignatureError, match="no checkpoint"):
        world.open(demand_checkpoint=True)


def test_a_checkpoint_without_the_proof_that_leads_to_it(world: World) -> None:
    resigned(world, inclusion=None)
    with pytest.raises(MalformedError, match="without the proof"):
        world.open()


def test_a_keyring_without_ledger_keys_says_that_nothing_is_proved_by_them(world: World) -> None:
    keyring = Keyring(tuple(key for key in load_keyring(world.state).keys if key.role != "ledger"))
    assert world.open(keys=keyring).proof == "unsigned"
    with pytest.raises(SignatureError):
        world.open(keys=keyring, demand_checkpoint=True)


@pytest.mark.parametrize("compromised", [False, True])
def test_a_release_outlives_the_ledger_key_of_its_checkpoint(world: World, compromised: bool) -> None:
    old = load_keyring(world.state)
    lost = world.ledger.tree().size if compromised else None
    key_rotation.rotate(
        world.state, world.ledger, "ledger", reason="a test", compromised_from=lost, terms=world.terms
    )
    for keyring in (old, load_keyring(world.state)):
        memory.forget()
        assert world.open(keys=keyring).proof == ("unsigned" if compromised else "signed")


def test_nothing_is_promoted_from_a_log_that_does_not_extend_its_checkpoint(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world.accepted("2.0.0")
    monkeypatch.setattr("acceptd.record.checkpoint.merkle.verify_consistency", lambda *_: False)
    with pytest.raises(LedgerError, match="does not extend"):
        world.promote(made)
    assert world.open().number == 1


# What a caller compares


def test_release_json_names_preprocessing_and_labels_in_the_open(world: World) -> None:
    document, declared = payload_of(world.release_file(1)), manifest()
    opened = world.open()
    assert document["preprocessing"] == opened.preprocessing
    assert (opened.preprocessing or {})["sha256"] == declared["preprocessing"]["sha256"]
    names, version = declared["models"][0]["outputs"][0]["labels"], declared["labels"]["schema_version"]
    outputs = [{"labels": names, "model": "main", "output": "probabilities"}]
    sha256 = digest({"schema_version": version, "outputs": outputs})
    assert document["labels"] == opened.labels == {"schema_version": version, "sha256": sha256}


@pytest.mark.parametrize("member", ["preprocessing", "labels"])
def test_an_identity_that_its_manifest_does_not_declare(world: World, member: str) -> None:
    resigned(world, **{member: {**payload_of(world.release_file(1))[member], "sha256": "0" * 64}})
    with pytest.raises(MalformedError, match=member):
        world.open()


def test_a_release_of_before_that_names_none_of_it_opens(world: World) -> None:
    payload = payload_of(world.release_file(1))
    new = ("checkpoint", "preprocessing", "labels", "runtimes")
    old = {key: value for key, value in payload.items() if key not in new}

    def change(document: dict[str, Any]) -> None:
        document.clear()
        document.update(old)

    expected = world.open().preprocessing
    resign(world, world.release_file(1), change, trust.RELEASE_TYPE)
    repoint(world, 1)
    memory.forget()
    opened = world.open()
    assert (opened.proof, opened.preprocessing, opened.runtime) == ("unsigned", expected, None)


# The runtime that it was accepted on


def accepted_on(world: World, *, pinned: bool = False, **record: Any) -> None:
    """Let release.json say what it was accepted on: this process, but for ``record``."""
    runtime = loader_runtime.process_facts(__import__("onnxruntime"))
    said: dict[str, Any] = {
        "cpu_class": runtime["cpu_class"], "onnxruntime": runtime["onnxruntime"],
        "libraries": [{"name": name, "sha256": sha256} for name, sha256 in sorted(runtime["libraries"].items())],
    } | record  # fmt: skip
    options = SessionOptions(
        runtime_identity=digest(said), onnxruntime=runtime["onnxruntime"] if pinned else ""
    ).model_dump(mode="json")
    row = {"profile": "cpu", "digest": "0" * 64, "runtime_identity": digest(said), "options": options}
    resigned(world, options=options, profiles=[row], runtimes=[{"profile": "cpu", "record": said}])


def test_the_runtime_that_it_was_accepted_on_is_no_difference(world: World) -> None:
    accepted_on(world, pinned=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for told in (None, "refuse", "warn", "ignore"):
            assert world.open().session(runtime=told).runtime_differences == ()


@pytest.mark.parametrize(
    ("record", "words", "hashed"),
    [
        ({"cpu_class": "x86-64-v9+quantum"}, "class", False),
        ({"onnxruntime": "1.2.3"}, "onnxruntime is", False),
        ({"libraries": [{"name": "libonnxruntime.so.1.32.0", "sha256": "0" * 64}]}, "libonnxruntime", True),
    ],
)
def test_another_runtime_is_refused_or_told(
    world: World, record: dict[str, Any], words: str, hashed: bool
) -> None:
    accepted_on(world, **record)
    release = world.open()
    with pytest.raises(RuntimeMismatchError, match="not what was accepted"):
        release.session(runtime="refuse")
    with pytest.warns(RuntimeDifferenceWarning):
        assert words in " ".join(release.session(runtime="warn").runtime_differences) or hashed
    assert release.session(runtime="ignore").runtime_differences == ()
    if hashed:  # nothing is hashed unless somebody asked for it
        assert release.session().runtime_differences == ()
    else:
        with pytest.warns(RuntimeDifferenceWarning, match=words):
            release.session()


def test_where_the_profile_pins_another_processor_is_refused_by_default(world: World) -> None:
    accepted_on(world, pinned=True, cpu_class="x86-64-v9+quantum")
    with pytest.raises(RuntimeMismatchError, match="class"):
        world.open().session()
    with pytest.warns(RuntimeDifferenceWarning):
        world.open().session(runtime="warn")


def test_a_runtime_record_that_is_not_that_of_its_identity(world: World) -> None:
    accepted_on(world)
    row = payload_of(world.release_file(1))["runtimes"][0]
    resigned(world, runtimes=[{**row, "record": {**row["record"], "cpu_class": "another"}}])
    with pytest.raises(DigestMismatchError, match="runtime identity"):
        world.open()
    for rows in ([1], [{}], [{"profile": "cpu", "record": {}}], "x", {}):
        resigned(world, runtimes=rows)
        with pytest.raises(MalformedError, match="runtime"):
            world.open()
