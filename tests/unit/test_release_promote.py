"""Promotion, rollback, revocation, refresh and history, each against the files that a loader reads."""

from __future__ import annotations

import base64
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import ExpiredError, ReleaseError, ReleaseNotFoundError, RevokedError
from acceptd.policy import names
from acceptd.policy.profile import Profile
from acceptd.record import attest
from acceptd.record.canonical import canonical, document_digest, parse
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import memory, trust
from acceptd.release.book import read_book
from acceptd.release.history import current_releases, history
from acceptd.release.model import ChannelDocument, ReleaseDocument, RevocationsDocument, SessionOptions
from acceptd.release.reconcile import reconcile
from acceptd.release.revoke import revoke
from acceptd.release.signers import ReleaseKeys
from tests.release_world import MODEL, Accepted, World, payload_of, resign

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def _types(world: World) -> list[str]:
    return [entry.type for entry in world.ledger.entries() if entry.type not in {"log", "verdict"}]


def test_first_promotion_is_what_the_design_says(world: World) -> None:
    release = world.released("1.0.0")
    assert (release.number, release.new, release.kind) == (1, True, "promote")
    assert os.readlink(world.channel_dir / "current") == "000001"
    bundle = world.channel_dir / "current" / "bundle"
    assert bundle.resolve() == release.bundle.resolve()
    assert (bundle / "model.onnx").read_bytes().startswith(b"model 1.0.0")
    assert _types(world) == ["intent", "activated"]
    assert world.release_file(1).stat().st_mode & 0o777 == 0o444
    assert world.channel_file.stat().st_mode & 0o777 == 0o644
    opened = world.open()
    assert (opened.number, opened.release_digest) == (1, release.release_digest)
    assert opened.proof == "unsigned"
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
    assert _types(world) == ["intent", "activated"]


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
    assert _types(world) == []


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
    assert _types(world) == []


def test_a_manifest_that_the_queue_changed_after_the_verdict(world: World) -> None:
    """The labels of a release are the judged ones: the queue between verdict and promotion is no authority."""
    one = world.accepted("1.0.0")
    output = {"name": "probabilities", "dtype": "float32", "labels": ["reject", "review", "accept"]}
    model = {"name": "main", "file": "model.onnx", "inputs": [], "outputs": [output]}
    with pytest.raises(ReleaseError, match="judged with other manifest"):
        world.promote(replace(one, manifest={**one.manifest, "models": [model]}))
    assert _types(world) == []


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
    assert _types(world) == []


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


def test_digest_that_is_not_in_the_store(world: World) -> None:
    accepted = world.accepted("1.0.0")
    for digest in ("0" * 64, "../../keys", "A" * 64, ""):
        with pytest.raises(ReleaseError):
            world.promote(replace(accepted, digest=digest))
    assert _types(world) == []


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


def test_rollback_is_a_higher_number_on_the_prior_digest(world: World) -> None:
    one, two = world.released("1.0.0"), world.released("2.0.0")
    assert world.open().bundle_digest == two.bundle_digest
    back = world.rollback()
    assert (back.number, back.kind, back.bundle_digest) == (3, "rollback", one.bundle_digest)
    opened = world.open()
    assert (opened.number, opened.bundle_digest) == (3, one.bundle_digest)
    assert opened.manifest["bundle"]["version"] == "1.0.0"
    assert world.rollback().bundle_digest == two.bundle_digest  # what was current before is prior now


def test_rollback_to_a_named_digest(world: World) -> None:
    one = world.released("1.0.0")
    world.released("2.0.0")
    three = world.released("3.0.0")
    assert world.rollback(one.bundle_digest).bundle_digest == one.bundle_digest
    assert world.rollback(three.bundle_digest).number == 5
    assert world.rollback(three.bundle_digest).new is False
    with pytest.raises(ReleaseError, match="never a release"):
        world.rollback("0" * 64)


def test_rollback_without_anything_to_go_back_to(world: World) -> None:
    with pytest.raises(ReleaseError, match="no release"):
        world.rollback()
    world.released("1.0.0")
    with pytest.raises(ReleaseError, match="no older release"):
        world.rollback()


def test_rollback_hashes_the_older_bundle_again(world: World) -> None:
    one = world.released("1.0.0")
    world.released("2.0.0")
    target = one.bundle / "model.onnx"
    data = target.read_bytes()
    target.unlink()
    target.write_bytes(data[::-1])
    with pytest.raises(ReleaseError, match="not the file"):
        world.rollback()
    assert world.open().number == 2


def test_revoked_digest_can_never_be_promoted(world: World) -> None:
    one, two = world.accepted("1.0.0"), world.accepted("2.0.0")
    world.promote(one)
    world.promote(two)
    world.revoke(one.digest)
    world.revoke(world.accepted("3.0.0").digest)
    with pytest.raises(ReleaseError, match="revoked"):
        world.promote(one)
    with pytest.raises(ReleaseError, match="revoked"):
        world.rollback(one.digest)
    with pytest.raises(ReleaseError, match="revoked"):
        world.rollback()
    assert world.open().number == 2


def test_revocation_lists_rise_and_channels_ask_for_them(world: World) -> None:
    world.released("1.0.0")
    assert [world.revoke(c * 64).number for c in "012"] == [1, 2, 3]
    assert payload_of(world.channel_file)["least_revocations"] == 3
    assert world.revoke("2" * 64).number == 3  # again: nothing new
    assert _types(world).count("revoked") == 3
    assert world.open().revocations == 3


def test_revoke_with_rollback(world: World) -> None:
    one, two = world.released("1.0.0"), world.released("2.0.0")
    done = world.revoke(two.bundle_digest, rollback=True)
    assert [release.bundle_digest for release in done.rollbacks] == [one.bundle_digest]
    assert done.stranded == ()
    opened = world.open()
    assert (opened.number, opened.bundle_digest, opened.revocations) == (3, one.bundle_digest, 1)


def test_revoke_with_rollback_passes_over_revoked_ones(world: World) -> None:
    one = world.released("1.0.0")
    two = world.released("2.0.0")
    three = world.released("3.0.0")
    world.revoke(two.bundle_digest)
    world.revoke(three.bundle_digest, rollback=True)
    assert world.open().bundle_digest == one.bundle_digest


def test_revoke_of_the_only_release_strands_the_channel(world: World) -> None:
    one = world.released("1.0.0")
    done = world.revoke(one.bundle_digest, rollback=True)
    assert done.stranded == ((MODEL, "production"),)
    with pytest.raises(RevokedError):
        world.open()
    world.released("2.0.0")
    assert world.open().number == 2


def test_rollback_added_to_an_earlier_revocation(world: World) -> None:
    world.released("1.0.0")
    two = world.released("2.0.0")
    world.revoke(two.bundle_digest)
    with pytest.raises(RevokedError):
        world.open()
    world.revoke(two.bundle_digest, rollback=True)
    assert world.open().number == 3


def test_revoke_reaches_every_channel_and_model(world: World) -> None:
    accepted = world.accepted("1.0.0")
    world.promote(accepted)
    world.promote(accepted, channel="canary")
    world.promote(world.accepted("1.0.0", model_id="mosaic/other"), model_id="mosaic/other")
    world.revoke(accepted.digest)
    for channel in ("production", "canary"):
        with pytest.raises(RevokedError):
            world.open(channel=channel)


@pytest.mark.parametrize(
    ("digest", "reason"), [("x", "y"), ("A" * 64, "y"), ("0" * 64, " "), ("0" * 64, "y" * 2001)]
)
def test_revocation_that_cannot_be_meant(world: World, digest: str, reason: str) -> None:
    with pytest.raises(ReleaseError):
        revoke(world.state, world.ledger, world.keys, digest=digest, reason=reason)
    assert _types(world) == []


def test_offline_revocation_key(world: World) -> None:
    world.released("1.0.0")
    (world.state / "keys" / "revocation.pem").unlink()
    world.keys = ReleaseKeys.load(world.state)
    assert world.released("2.0.0").number == 2
    with pytest.raises(ReleaseError, match="revocation key is not here"):
        world.revoke("0" * 64)
    assert "revoked" not in _types(world)


def test_one_damaged_model_does_not_protect_the_others_from_a_revocation(world: World) -> None:
    one = world.released("1.0.0")
    other = world.promote(world.accepted("1.0.0", model_id="mosaic/alpha"), model_id="mosaic/alpha")
    (world.state / "releases/mosaic/alpha/production/channel.json").unlink()
    (other.path / "release.json").unlink()
    done = world.revoke(one.bundle_digest)
    assert "mosaic/alpha" in done.problems[0]
    with pytest.raises(RevokedError):
        world.open()


def test_refresh_renews_what_has_used_half_its_life(world: World) -> None:
    world.released("1.0.0")
    before = payload_of(world.channel_file)

    def refresh() -> int:
        done = channels.refresh(world.state, world.ledger, world.keys, valid_seconds=3600, clock=lambda: world.now)
        assert done.problems == ()
        return len(done.renewed)

    world.now += 1700
    assert refresh() == 0
    world.now += 200
    assert refresh() == 1
    after = payload_of(world.channel_file)
    assert after["sequence"] > before["sequence"]
    assert after["number"] == before["number"]
    world.now += 3500
    assert world.open().number == 1
    world.now += 100
    with pytest.raises(ExpiredError):
        world.open()


def test_sequence_rises_though_the_clock_was_set_back(world: World) -> None:
    world.released("1.0.0")
    assert world.open().number == 1
    world.now -= 86_400
    world.released("2.0.0")
    assert world.open().number == 2


def test_state_restored_from_a_backup_never_repeats_a_number(world: World, tmp_path: Path) -> None:
    """The ledger is the backup's, the release tree is not: the next number is above both."""
    world.released("1.0.0")
    world.ledger.close()
    shutil.copy(world.state / "ledger.sqlite3", tmp_path / "backup")
    world = World(tmp_path)
    world.released("2.0.0")
    world.released("3.0.0")
    assert world.open().number == 3
    world.ledger.close()
    shutil.copy(tmp_path / "backup", world.state / "ledger.sqlite3")
    for name in ("ledger.sqlite3-wal", "ledger.sqlite3-shm"):
        (world.state / name).unlink(missing_ok=True)
    world = World(tmp_path)
    announced = world.channel_file.read_bytes()
    done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert "number 3, the ledger knows 1" in done.problems[0]
    assert channels.refresh(world.state, world.ledger, world.keys, force=True).problems
    assert world.channel_file.read_bytes() == announced  # nothing is signed with a lower number
    assert world.released("4.0.0").number == 4
    assert world.open().number == 4
    world.close()


def test_restored_ledger_un_revokes_nothing(world: World) -> None:
    world.released("1.0.0")
    two = world.accepted("2.0.0")

    def change(payload: dict[str, Any]) -> None:
        payload["revoked"] = [{"digest": two.digest, "reason": "forgotten", "at": "2026-11-29T11:57:00Z"}]
        payload["number"] = 7

    world.revoke("0" * 64)
    resign(world, world.revocations_file, change, trust.REVOCATIONS_TYPE, role="revocation")
    with pytest.raises(ReleaseError, match="revoked"):
        world.promote(two)
    assert world.revoke("1" * 64).number == 8
    listed = {row["digest"] for row in payload_of(world.revocations_file)["revoked"]}
    assert listed == {two.digest, "0" * 64, "1" * 64}


def test_damaged_revocation_list_stops_promotion_until_it_is_rebuilt(world: World) -> None:
    world.released("1.0.0")
    world.revoke("0" * 64)
    world.revocations_file.write_bytes(b"{}")
    with pytest.raises(ReleaseError, match="rebuilds the list"):
        world.released("2.0.0")
    done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert done.problems == ()
    assert world.open().revocations == 2
    world.released("3.0.0")


def test_removed_revocation_list_is_rebuilt_above_what_was_announced(world: World) -> None:
    world.released("1.0.0")
    world.revoke("0" * 64)
    world.revoke("1" * 64)
    assert world.open().revocations == 2
    world.revocations_file.unlink()
    done = channels.refresh(world.state, world.ledger, world.keys, clock=lambda: world.now, force=True)
    assert "revocation list" in done.problems[0]
    reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert world.open().revocations == 3


@pytest.mark.parametrize("what", ["current", "channel.json"])
def test_reconcile_mends_a_pointer_that_was_moved_by_hand(world: World, what: str) -> None:
    world.released("1.0.0")
    old = world.channel_file.read_bytes()
    world.released("2.0.0")
    (world.channel_dir / what).unlink()
    if what == "current":
        os.symlink("000001", world.channel_dir / what)
    else:
        world.channel_file.write_bytes(old)
    done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert done.problems == ()
    assert len(done.done) == 1
    assert os.readlink(world.channel_dir / "current") == "000002"
    assert world.open().number == 2
    assert reconcile(world.state, world.ledger, world.keys, terms=world.terms).done == ()


def test_reconcile_reports_a_release_that_does_not_verify(world: World) -> None:
    world.released("1.0.0")
    world.release_file(1).unlink()
    (world.channel_dir / "current").unlink()
    done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert "release.json is missing" in done.problems[0]
    assert not os.path.lexists(world.channel_dir / "current")


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
    assert trust.NAME.pattern == names.NAME.pattern
    assert trust.NAME.flags == names.NAME.flags
    assert trust.SHA256.pattern == names.SHA256.pattern
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
