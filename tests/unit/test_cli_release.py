"""`acceptd release` as people call it: what is promoted, held and shown, and every word that is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from acceptd.release.book import read_book
from tests import called
from tests.office_world import OfficeWorld
from tests.release_world import MODEL, memory_directory

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def base() -> Iterator[OfficeWorld]:
    made = OfficeWorld(memory_directory())
    made.close()
    yield made
    shutil.rmtree(made.root)


@pytest.fixture
def world(base: OfficeWorld) -> Iterator[OfficeWorld]:
    made = base.copied(memory_directory())
    yield made
    made.close()
    shutil.rmtree(made.root)


def current(world: OfficeWorld, channel: str = "production") -> str:
    row = read_book(world.ledger).current(MODEL, channel)
    return "" if row is None else row.digest


def test_what_was_accepted_is_promoted_by_hand_once(world: OfficeWorld) -> None:
    digest = world.waiting.digest
    words = ("release", "promote", MODEL, "--digest", digest[:8])
    assert world.said(*words) == f"{MODEL} production is now 3 ({digest[:12]})\n"
    assert current(world) == digest
    size = world.ledger.tree().size
    assert world.said(*words) == f"{MODEL} production was already 3 ({digest[:12]})\n"
    assert world.ledger.tree().size == size


@pytest.mark.parametrize("what", ["inferred", "rejected", "of another model", "only observed"])
def test_what_was_not_accepted_for_this_model_is_not_promoted_by_hand(world: OfficeWorld, what: str) -> None:
    more, queued = {"only observed": ({"observed": True}, True)}.get(what, ({}, False))
    other = world.accepted("9.0.0", **more)
    verdict = "rejected" if what == "rejected" else "accepted"
    document = {"inferred": ["bundle.id"]} if what == "inferred" else {}
    world.queued(
        "sub-4", other.digest, verdict=verdict, manifest=other.manifest, document=document, observed=queued
    )
    model = "mosaic/another" if what == "of another model" else MODEL
    error, remedy = world.refused("release", "promote", model, "--digest", other.digest[:10])
    if what != "only observed":
        assert error == f"0 accepted bundles of {model} begin with {other.digest[:10]}"
        assert "needs a bundle.toml first" in remedy
    assert current(world) == world.second.bundle_digest


def test_a_frozen_channel_takes_nothing_until_it_is_unfrozen(world: OfficeWorld) -> None:
    freeze = ("release", "freeze", MODEL, "--reason", "the [bold]fair")
    said = world.said(*freeze)
    assert said.startswith(f"frozen: {MODEL} production since ")
    assert said.endswith("): the [bold]fair\n")
    assert world.said(*freeze).startswith("was frozen already: ")
    error, _ = world.refused("release", "promote", MODEL, "--digest", world.waiting.digest)
    assert "frozen" in error
    table = world.said("release", "list")
    assert "  frozen, " in table.splitlines()[1]
    assert f"frozen: {MODEL} production since" in table
    assert "frozen" in world.said("status").partition("frozen")[1]
    shown = json.loads(world.said("status", "--json"))["frozen"]
    assert [(one["model_id"], one["bundle_digest"], one["reason"]) for one in shown] == [
        (MODEL, None, "the [bold]fair")
    ]
    assert world.said("release", "unfreeze", MODEL, "--reason", "over").startswith(f"unfrozen: {MODEL} production")
    error, _ = world.refused("release", "unfreeze", MODEL, "--reason", "over")
    assert error == f"production of {MODEL} is not frozen"
    assert "is now 3" in world.said("release", "promote", MODEL, "--digest", world.waiting.digest)


def test_a_channel_of_all_models_is_frozen_as_one(world: OfficeWorld) -> None:
    assert "frozen: all models production" in world.said(
        "release", "freeze", "--all-models", "--reason", "an incident"
    )
    error, remedy = world.refused("release", "unfreeze", MODEL, "--reason", "mine")
    assert (error, "--all-models" in remedy) == (f"production of {MODEL} is not frozen", True)
    said = world.said("release", "unfreeze", "--all-models", "--reason", "over")
    assert said.startswith("unfrozen: all models production (entry ")


def test_a_damaged_channel_is_frozen_all_the_same_and_what_is_wrong_is_told(world: OfficeWorld) -> None:
    world.channel_dir.rename(world.channel_dir.with_name("aside"))
    world.channel_dir.write_bytes(b"")
    said = world.said("release", "freeze", MODEL, "--reason", "look at it").splitlines()
    assert said[0].startswith(f"frozen: {MODEL} production since ")
    assert said[1].startswith(f"  problem: {MODEL} production: release 2 of ")
    assert read_book(world.ledger).holds.frozen(MODEL, "production")


def test_an_export_by_hand_is_verified_with_a_keyring_alone(world: OfficeWorld) -> None:
    place = world.root / "exported"
    place.mkdir()
    to = ("release", "export", MODEL, "--to", str(place))
    told = json.loads(world.said(*to, "--json"))
    assert told == {"done": [f"{MODEL}/production/000002: exported"], "number": 2, "problems": []}
    assert world.said(*to) == "it was there already, whole\n"
    verify = ("release", "export", "verify", str(place), "--keys", str(world.state / "keyring.json"))
    assert world.second.bundle_digest[:12] in world.said(*verify)
    (file,) = place.rglob("model.onnx")
    file.chmod(0o644)
    file.write_bytes(b"another model")
    said = called.run(*verify, "--json")
    assert (said.returncode, len(json.loads(said.stdout)["problems"])) == (5, 1), said.stdout


def test_a_pinned_release_stays_while_it_is_current(world: OfficeWorld) -> None:
    pin = ("release", "pin", MODEL, "--reason", "the audit")
    assert world.said(*pin).startswith(f"pinned: {MODEL} production {world.second.bundle_digest[:12]} since ")
    assert world.said(*pin).startswith("was pinned already: ")
    error, _ = world.refused("release", "promote", MODEL, "--digest", world.waiting.digest)
    assert "pinned" in error
    assert "pinned: " in world.said("release", "list")
    assert world.said(*pin, "--release", "1").startswith("pinned: ")
    said = world.said("release", "unpin", MODEL, "--reason", "over").splitlines()
    assert [one.split()[3] for one in said] == [
        world.second.bundle_digest[:12], world.first.bundle_digest[:12]
    ]  # fmt: skip
    error, _ = world.refused("release", "unpin", MODEL, "--reason", "over")
    assert error == f"no release of {MODEL} production is pinned"


def test_a_revocation_tells_what_became_of_each_channel(world: OfficeWorld) -> None:
    short = world.second.bundle_digest[:8]
    said = world.said("release", "revoke", short, "--reason", "it bites", "--rollback")
    assert said == (
        f"revoked {world.second.bundle_digest[:12]}: the list is number 1 now\n"
        f"  {MODEL} production is now 3 ({world.first.bundle_digest[:12]})\n"
    )
    said = world.said("release", "revoke", world.first.bundle_digest, "--reason", "that too")
    assert f"{MODEL} production still names it: loaders refuse until another release is promoted" in said
    table = world.said("release", "list")
    assert "revoked" in table.splitlines()[1]
    history = world.said("release", "history", MODEL)
    assert "revoked since: that too" in history
    rows = json.loads(world.said("release", "history", MODEL, "--json"))
    assert [(one["number"], one["kind"]) for one in rows] == [(3, "rollback"), (2, "promote"), (1, "promote")]


def test_a_revocation_that_cannot_reach_a_channel_says_which(world: OfficeWorld) -> None:
    world.channel_dir.rename(world.channel_dir.with_name("aside"))
    world.channel_dir.write_bytes(b"")
    said = world.said("release", "revoke", world.second.bundle_digest, "--reason", "it bites", "--rollback")
    assert said.startswith(f"revoked {world.second.bundle_digest[:12]}: the list is number 1 now\n")
    assert f"problem: {MODEL} production" in said
    assert world.second.bundle_digest in read_book(world.ledger).revoked


def test_a_model_without_a_release_has_nothing_to_be_signed(world: OfficeWorld) -> None:
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric import ec

    key = world.root / "ec.pem"
    private = ec.generate_private_key(ec.SECP256R1())
    plain = forms.NoEncryption()
    key.write_bytes(private.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, plain))
    key.chmod(0o600)
    words = ("release", "sign", MODEL, "--key", str(key), "--output", str(world.root / "o"), "--channel", "canary")
    error, _ = world.refused(*words)
    assert f"{MODEL} has no release on canary" in error
    assert not (world.root / "o").exists()


NOBODY = "00" * 4
REASON = ("--reason", "r")
FTP = ("--endpoint", "ftp://x")


@pytest.mark.parametrize(
    ("words", "error", "remedy"),
    [
        (("promote", "mosaic", "--digest", NOBODY), "no model id", "write it as team/name"),
        (("promote", MODEL, "--digest", "abc"), "'abc' is too short to name a digest", "give 8 digits or more"),
        (("promote", MODEL, "--digest", NOBODY), f"0 accepted bundles of {MODEL}", "see `acceptd status`"),
        (("promote", MODEL, "--digest", NOBODY, "--channel", "moon"), "has no channel 'moon'", "correct the name"),
        (("rollback", MODEL, "--to", "9"), "has no release '9': it has 1 and 2", "acceptd release history"),
        (("rollback", MODEL, "--channel", "canary"), f"{MODEL} has no release on canary", ""),
        (("freeze", *REASON), "name one model, or give --all-models", "one of the two"),
        (("freeze", MODEL, "--all-models", *REASON), "name one model, or give --all-models", "one of the two"),
        (("freeze", "../x", *REASON), "'..' is no name", "write it as team/name"),
        (("freeze", MODEL, "--reason", "x" * 2001), "a reason of at most 2000 characters", ""),
        (("unfreeze", "--all-models", *REASON), "production of all models is not frozen", ""),
        (
            ("pin", MODEL, "--release", "7", *REASON),
            "has no release '7': it has 1 and 2",
            "acceptd release history",
        ),
        (("pin", MODEL, "--release", "abc", *REASON), "too short to name a digest", "give 8 digits or more"),
        (("unpin", MODEL, "--channel", "moon", *REASON), "has no channel 'moon'", "correct the name"),
        (("revoke", "abc", *REASON), "'abc' is shorter than 8 digits of a bundle digest", "give the whole digest"),
        (
            ("revoke", NOBODY, *REASON),
            f"0 releases have a bundle digest that begins with '{NOBODY}'",
            "give the whole",
        ),
        (("history", MODEL, "--channel", "moon"), "has no channel 'moon'", "correct the name"),
        (("history", "mosaic"), "no model id", "write it as team/name"),
        (("sign", "../x", "--key", "k", "--output", "o"), "'..' is no name", ""),
        (("sign", MODEL, "--key", "/nowhere.pem", "--output", "o"), "/nowhere.pem", "name an ECDSA key in PEM"),
        (("export", MODEL), "say where to export to", "release export MODEL --to"),
        (("export", MODEL, "--to", "/nowhere/x"), "/nowhere/x: No such file or directory", "make the directory"),
        (("export", MODEL, "--to", "/", "--kind", "tar"), "--kind tar: there are plain and triton", ""),
        (("export", "mosaic/", "--to", "/"), "is no name", "write it as team/name"),
        (
            ("export", MODEL, "--to", "/", "--channel", "moon"),
            f"{MODEL} has no release on moon",
            "acceptd release",
        ),
        (("export", MODEL, "--to", "s3://"), "'' is no name of a bucket", "write s3://bucket/prefix"),
        (("export", MODEL, "--to", "s3://b/x?y"), "no '?' and no '#'", "write s3://bucket/prefix"),
        (("export", MODEL, "--to", "s3://bucket", *FTP), "'ftp://x'", "write --endpoint https://host:port"),
    ],
    ids=lambda value: " ".join(map(str, value))[:60] if isinstance(value, tuple) else None,
)
def test_words_that_cannot_be_meant_move_nothing(
    world: OfficeWorld, words: tuple[str, ...], error: str, remedy: str
) -> None:
    before = current(world)
    told, mend = world.refused("release", *words)
    assert error in told
    assert mend.startswith(remedy)
    assert current(world) == before
