"""Promotion, rollback, revocation, refresh and history, each against the files that a loader reads."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import ReleaseError, ReleaseNotFoundError, StateError
from acceptd.policy import names
from acceptd.policy.profile import Profile
from acceptd.record import attest
from acceptd.record.canonical import canonical, document_digest, parse
from acceptd.record.log import Ledger
from acceptd.release import grammar, memory
from acceptd.release.book import read_book
from acceptd.release.history import current_releases, history
from acceptd.release.model import ChannelDocument, ReleaseDocument, RevocationsDocument, SessionOptions
from tests.release_world import MODEL, Accepted, World, payload_of, types_of

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_first_promotion_is_what_the_design_says(world: World) -> None:
    release = world.released("1.0.0")
    assert (release.number, release.new, release.kind) == (1, True, "promote")
    assert os.readlink(world.channel_dir / "current") == "000001"
    bundle = world.channel_dir / "current" / "bundle"
    assert bundle.resolve() == release.bundle.resolve()
    assert (bundle / "model.onnx").read_bytes().startswith(b"model 1.0.0")
    assert types_of(world) == ["intent", "activated"]
    assert world.release_file(1).stat().st_mode & 0o777 == 0o444
    assert world.channel_file.stat().st_mode & 0o777 == 0o644
    opened = world.open()
    assert (opened.number, opened.release_digest) == (1, release.release_digest)
    assert opened.proof == "signed"
    assert opened.file("data/labels.txt").read_bytes() == b"1.0.0"


def test_signed_documents_follow_their_schemas(world: World) -> None:
    world.released("1.0.0")
    world.released("2.0.0")
    world.revoke("0" * 64)
    document = ReleaseDocument.model_validate(payload_of(world.release_file(2)))
    assert document.prior is not None
    assert document.prior.number == 1
    ChannelDocument.model_validate(payload_of(world.channel_file))
    RevocationsDocument.model_validate(payload_of(world.revocations_file))
    for model in (ReleaseDocument, ChannelDocument, RevocationsDocument):
        assert model.model_json_schema(by_alias=True)["additionalProperties"] is False


def test_the_digest_that_is_current_makes_no_new_number(world: World) -> None:
    accepted = world.accepted("1.0.0")
    first, again = world.promote(accepted), world.promote(accepted)
    assert (again.number, again.new) == (1, False)
    assert again.release_digest == first.release_digest
    assert types_of(world) == ["intent", "activated"]


def test_an_older_digest_promoted_again_gets_a_higher_number(world: World) -> None:
    one, two = world.accepted("1.0.0"), world.accepted("2.0.0")
    assert [world.promote(a).number for a in (one, two, one, two)] == [1, 2, 3, 4]


def test_channels_count_by_themselves(world: World) -> None:
    accepted = world.accepted("1.0.0")
    assert world.promote(accepted, channel="canary").number == 1
    assert world.promote(accepted).number == 1
    assert world.open(channel="canary").number == 1
    with pytest.raises(ReleaseNotFoundError):
        world.open(channel="staging")


@pytest.mark.parametrize("verdict", ["rejected", "held", "inconclusive"])
def test_only_an_accepted_verdict_promotes(world: World, verdict: str) -> None:
    with pytest.raises(ReleaseError, match="did not accept"):
        world.promote(world.accepted("1.0.0", verdict=verdict))
    assert types_of(world) == []


def test_verdict_about_another_bundle_or_model(world: World) -> None:
    one, two = world.accepted("1.0.0"), world.accepted("2.0.0")
    other = world.accepted("3.0.0", model_id="mosaic/other")
    for wrong in (
        replace(one, verdict_seq=two.verdict_seq),
        replace(one, verdict_seq=0),
        replace(one, verdict_seq=999),
        other,
        replace(other, manifest=one.manifest),
    ):
        with pytest.raises(ReleaseError):
            world.promote(wrong)
    assert types_of(world) == []


def test_a_manifest_that_the_queue_changed_after_the_verdict(world: World) -> None:
    """The labels of a release are the judged ones: the queue between verdict and promotion is no authority."""
    one = world.accepted("1.0.0")
    output = {"name": "probabilities", "dtype": "float32", "labels": ["reject", "review", "accept"]}
    model = {"name": "main", "file": "model.onnx", "inputs": [], "outputs": [output]}
    with pytest.raises(ReleaseError, match="judged with other manifest"):
        world.promote(replace(one, manifest={**one.manifest, "models": [model]}))
    assert types_of(world) == []


def test_session_options_that_the_queue_changed_after_the_verdict(world: World) -> None:
    options = SessionOptions()
    one = world.accepted("1.0.0", options_digest=document_digest(options.model_dump(mode="json")))
    other = options.model_copy(update={"session_entries": {"session.disable_prepacking": "1"}})
    with pytest.raises(ReleaseError, match="judged with other options"):
        world.promote(one, options=other)
    assert world.promote(one, options=options).number == 1


def test_an_inferred_manifest_is_not_promoted(world: World) -> None:
    with pytest.raises(ReleaseError, match="inferred"):
        world.promote(world.accepted("1.0.0", inferred=["bundle.id from the name of the drop"]))


def test_a_verdict_that_nobody_signed_promotes_nothing(world: World) -> None:
    """Who can write to the database can forge an entry with its leaf hash and nodes, but no signature."""
    one = world.accepted("1.0.0")
    entry = world.ledger.entry(one.verdict_seq)
    signed = entry.body["statement"]
    forged = {key: value for key, value in entry.body.items() if key != "statement"}
    for number, body in enumerate((forged, {**forged, "statement": signed})):
        seq = world.ledger.append("verdict", body, submission=f"forged-{number}").seq
        with pytest.raises(ReleaseError, match=r"signed verdict|its statement"):
            world.promote(replace(one, verdict_seq=seq))
    assert types_of(world) == []


def test_a_file_that_is_another_bundles_inventory_does_not_speak_for_it(world: World) -> None:
    """A bundle digest is the SHA-256 of an inventory, which an accepted bundle may hold as a file."""
    evil = world.accepted("6.6.6", verdict="rejected")
    inventory = (world.state / "store" / "inventory" / f"{evil.digest}.json").read_bytes()
    cover = world.accepted("1.0.0", files={"model.onnx": b"fine", "notes.json": inventory})
    entry = world.ledger.entry(cover.verdict_seq)
    body = {**entry.body, "bundle_digest": evil.digest}
    forged = world.ledger.append("verdict", body, submission="forged").seq
    statement = attest.verify_statement(body["statement"], world.keys.keyring)
    assert {"sha256": evil.digest} in [subject["digest"] for subject in statement["subject"]]
    assert any(
        "about the bundle" in said
        for said in attest.statement_differences(statement, "sub-2", body, world.ledger.origin, 5)
    )
    with pytest.raises(ReleaseError):
        world.promote(replace(evil, verdict_seq=forged))


@pytest.mark.parametrize("place", ["releases", "releases/mosaic", f"releases/{MODEL}"])
def test_nothing_is_written_where_a_link_among_the_releases_leads(
    world: World, tmp_path: Path, place: str
) -> None:
    link = world.state / place
    link.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "elsewhere").mkdir()
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="is a link"):
        world.promote(world.accepted("1.0.0"), channel="canary")
    assert os.listdir(tmp_path / "elsewhere") == []
    link.unlink()
    assert world.promote(world.accepted("2.0.0"), channel="canary").number == 2  # the first one is burnt


@pytest.mark.parametrize("rolls_back", [False, True])
def test_a_directory_with_the_highest_number_is_named_and_uses_nothing_up(world: World, rolls_back: bool) -> None:
    world.released("1.0.0")
    world.released("2.0.0")
    size = world.ledger.tree().size
    stray = world.channel_dir / "999999"
    stray.mkdir()
    with pytest.raises(ReleaseError, match=r"production/999999, which the ledger does not know"):
        world.rollback() if rolls_back else world.promote(world.accepted("3.0.0"))
    assert world.ledger.tree().size == size + (not rolls_back)  # the verdict alone
    stray.rmdir()
    assert world.rollback().number == 3


def test_digest_that_is_not_in_the_store(world: World) -> None:
    accepted = world.accepted("1.0.0")
    for digest in ("0" * 64, "../../keys", "A" * 64, ""):
        with pytest.raises(ReleaseError):
            world.promote(replace(accepted, digest=digest))
    assert types_of(world) == []


@pytest.mark.parametrize("model_id", ["../x", "mosaic", "mosaic/current", "Mosaic/x", "a/b/c"])
def test_names_outside_the_grammar(world: World, model_id: str) -> None:
    with pytest.raises(ReleaseError):
        world.promote(world.accepted("1.0.0"), model_id=model_id)
    with pytest.raises(ReleaseError):
        world.promote(world.accepted("2.0.0"), channel=f"{model_id}!")


@pytest.mark.parametrize(
    "options", [{"providers": []}, {"threads": 4}, {"intra_op_threads": 0}, {"providers": "CPU"}]
)
def test_session_options_of_another_form(world: World, options: dict[str, Any]) -> None:
    with pytest.raises(ReleaseError, match="session options"):
        world.promote(world.accepted("1.0.0"), options=options)


def test_profile_becomes_session_options(world: World) -> None:
    profile = Profile(name="two", intra_op_threads=2, session_entries={"mlas.use_lut_gemm": "1"})
    world.promote(world.accepted("1.0.0"), options=SessionOptions.of(profile))
    options = world.open().options
    assert (options["profile"], options["intra_op_threads"]) == ("two", 2)
    assert options["session_entries"] == {"mlas.use_lut_gemm": "1"}


def test_list_and_history_tell_what_happened(world: World) -> None:
    one = world.released("1.0.0")
    two = world.released("2.0.0")
    world.rollback()
    world.revoke(two.bundle_digest)
    (line,) = current_releases(world.state, world.ledger, world.keys, clock=lambda: world.now)
    assert (line.model_id, line.number, line.version, line.problem) == (MODEL, 3, "1.0.0", "")
    lines = history(world.state, world.ledger, world.keys, MODEL, "production")
    assert [(h.number, h.kind, h.state, h.version, h.revoked) for h in lines] == [
        (3, "rollback", "active", "1.0.0", ""),
        (2, "promote", "superseded", "2.0.0", "it bites"),
        (1, "promote", "superseded", "1.0.0", ""),
    ]
    world.now += 3600
    assert "expired" in current_releases(world.state, world.ledger, world.keys, clock=lambda: world.now)[0].problem
    world.revoke(one.bundle_digest)
    assert "revoked" in current_releases(world.state, world.ledger, world.keys, clock=lambda: world.now)[0].problem
    with pytest.raises(ReleaseError, match="no release"):
        history(world.state, world.ledger, world.keys, MODEL, "canary")


def test_two_threads_promoting_one_model_take_two_numbers(world: World) -> None:
    accepted = [world.accepted(f"{n}.0.0") for n in range(1, 5)]
    numbers: list[int] = []

    def one(item: Accepted) -> None:
        numbers.append(world.promote(item).number)

    threads = [threading.Thread(target=one, args=(item,)) for item in accepted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == [1, 2, 3, 4]
    assert world.open().number == 4


def test_book_of_a_fresh_ledger_object_is_the_same(world: World) -> None:
    world.released("1.0.0")
    world.released("2.0.0")
    world.rollback()
    world.revoke("0" * 64)
    with Ledger.open(world.state) as ledger:
        fresh = read_book(ledger)
    kept = read_book(world.ledger)
    assert (fresh.channels, fresh.revoked, fresh.size) == (kept.channels, kept.revoked, kept.size)


def test_state_file_is_written_once_for_the_same_release(world: World, tmp_path: Path) -> None:
    state_file = tmp_path / "seen.json"
    world.released("1.0.0")
    world.open(state_file=state_file)
    first = state_file.stat()
    memory.forget()
    world.open(state_file=state_file)
    assert state_file.stat().st_ino == first.st_ino
    world.released("2.0.0")
    world.open(state_file=state_file)
    assert state_file.stat().st_ino != first.st_ino


def test_the_loader_grammar_is_the_one_grammar() -> None:
    assert grammar.NAME.pattern == names.NAME.pattern
    assert grammar.NAME.flags == names.NAME.flags
    assert grammar.SHA256.pattern == names.SHA256.pattern
    assert frozenset({"current"}) == names.RESERVED


def test_canonical_form_is_what_is_signed(world: World) -> None:
    world.released("1.0.0")
    for path in (world.channel_file, world.release_file(1)):
        envelope = parse(path.read_bytes().rstrip(b"\n"))
        assert base64.b64decode(envelope["payload"]) == canonical(payload_of(path))


def test_a_verdict_of_a_version_that_knew_fewer_options_can_still_be_promoted(world: World) -> None:
    old = {
        "profile": "cpu", "providers": ["CPUExecutionProvider"], "allow_cpu_fallback": False,
        "intra_op_threads": 1, "inter_op_threads": 1, "optimisation": "all", "session_entries": {},
        "runtime_identity": None,
    }  # fmt: skip
    one = world.accepted("1.0.0", options_digest=document_digest(old))
    with pytest.raises(ReleaseError, match="judged with other options"):
        world.promote(one, options={**old, "libraries": {"libc.so.6": "0" * 64}})
    assert world.promote(one, options=old).number == 1
    assert world.open().options["libraries"] == {}
