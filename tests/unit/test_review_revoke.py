"""A revocation that a reviewer signs elsewhere: whose counts, for what, and that the record can be held to it."""

from __future__ import annotations

import base64
import json
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.cli.common import write_new
from acceptd.config import Paths
from acceptd.errors import LoaderError, MalformedError, SignatureError, UsageError
from acceptd.policy.policy import ApprovalsTable, Policy
from acceptd.policy.reviewers import Reviewer, Reviewers
from acceptd.record import attest
from acceptd.record.canonical import canonical
from acceptd.record.keys import Signer
from acceptd.release.book import read_book
from acceptd.review import decision as decisions
from acceptd.review import keys as own
from acceptd.review import revocation
from acceptd.review.desk import Desk
from tests import commands
from tests.release_world import MODEL, World, memory_directory
from tests.review_world import ADA, PEOPLE

pytestmark = pytest.mark.unit

LATER = "2099-01-01T00:00:00Z"


@pytest.fixture
def world() -> Iterator[World]:
    root = memory_directory()
    made = World(root)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(root)


def desk(world: World, people: Reviewers = PEOPLE, policy: Policy | None = None) -> Desk:
    return Desk(world.state, world.ledger, policy or Policy(), people)


def signed(world: World, digest: str, signer: Signer = ADA, **changes: Any) -> attest.Envelope:
    terms: dict[str, Any] = {"reason": "it bites", "rollback": True, "expires_at": LATER}
    log = changes.pop("log", world.ledger.origin)
    return revocation.sign(revocation.to_sign(revocation.about(log, digest, **(terms | changes))), signer)


def test_a_reviewer_revokes_and_every_channel_goes_back_to_what_was_before(world: World) -> None:
    first, second = world.released("1.0.0"), world.released("2.0.0")
    envelope = signed(world, second.bundle_digest)
    said, done = revocation.carry_out(desk(world), world.keys, envelope, world.terms)
    assert said.bundle_digest == second.bundle_digest
    assert [(one.number, one.bundle_digest) for one in done.rollbacks] == [(3, first.bundle_digest)]
    (entry,) = world.ledger.entries(kind="revoked")
    assert entry.body == {
        "digest": second.bundle_digest, "reason": "it bites", "rollback": True, "by": "reviewer ada",
        "envelope": envelope,
    }  # fmt: skip
    assert read_book(world.ledger).revoked[second.bundle_digest].by == "reviewer ada"
    assert list(revocation.examine(world.ledger, PEOPLE)) == []


def test_the_same_one_again_changes_nothing(world: World) -> None:
    made = world.released()
    envelope = signed(world, made.bundle_digest, rollback=False)
    revocation.carry_out(desk(world), world.keys, envelope, world.terms)
    before = world.ledger.tree()
    revocation.carry_out(desk(world), world.keys, envelope, world.terms)
    assert world.ledger.tree() == before


def test_words_that_nobody_signed_do_not_come_into_the_ledger_with_a_revocation(world: World) -> None:
    envelope = signed(world, "ab" * 32)
    by_nobody = {"keyid": ADA.key_id, "sig": "AAAA", "reason": "all agreed"}
    carried = {**envelope, "reason": "\ud800", "signatures": [by_nobody, *envelope["signatures"]]}
    revocation.carry_out(desk(world), world.keys, carried, world.terms)
    (entry,) = world.ledger.entries(kind="revoked")
    assert entry.body["envelope"] == envelope
    assert list(revocation.examine(world.ledger, PEOPLE)) == []


def test_one_for_every_bundle_of_the_future_too(world: World) -> None:
    revocation.carry_out(desk(world), world.keys, signed(world, "ab" * 32), world.terms)
    assert "ab" * 32 in read_book(world.ledger).revoked


STRANGER = Signer.of("reviewer", Ed25519PrivateKey.generate())
GONE = Reviewers(reviewers=[PEOPLE.reviewers[0].model_copy(update={"left": True})])


@pytest.mark.parametrize(
    ("people", "policy", "changes", "error"),
    [
        (PEOPLE, Policy(), {"signer": STRANGER}, SignatureError),
        (GONE, Policy(), {}, UsageError),
        (PEOPLE, Policy(approvals=ApprovalsTable(teams=["legal"])), {}, UsageError),
        (PEOPLE, Policy(), {"log": f"acceptd/{'0' * 32}"}, UsageError),
        (PEOPLE, Policy(), {"expires_at": "2020-01-01T00:00:00Z"}, UsageError),
    ],
    ids=["a stranger", "one who left", "a team that may not decide", "for another instance", "expired"],
)
def test_what_does_not_count_enters_nothing(
    world: World, people: Reviewers, policy: Policy, changes: dict[str, Any], error: type[Exception]
) -> None:
    made = world.released()
    envelope, before = signed(world, made.bundle_digest, **changes), world.ledger.tree()
    with pytest.raises(error):
        revocation.carry_out(desk(world, people, policy), world.keys, envelope, world.terms)
    assert world.ledger.tree() == before


def test_a_signature_over_one_kind_of_document_is_none_over_the_other(world: World) -> None:
    payload = revocation.to_sign(
        revocation.about(world.ledger.origin, "ab" * 32, reason="r", rollback=False, expires_at=LATER)
    )
    as_decision = attest.sign(decisions.DECISION_TYPE, payload, ADA)
    with pytest.raises(SignatureError):
        revocation.carry_out(desk(world), world.keys, as_decision, world.terms)
    as_revocation = attest.sign(revocation.REVOCATION_TYPE, payload, ADA)
    for kind in (as_decision, as_revocation):
        with pytest.raises(LoaderError):
            desk(world).record(kind)


@pytest.mark.parametrize(
    "payload",
    [
        b"{}", b"[]", b"", b"\xff", b'{"revoke":"bundle"}', b'{ "revoke":"bundle"}',
        canonical({"revoke": "everything", "schema": 1}),
    ],
)  # fmt: skip
def test_what_is_no_revocation_is_not_signed(payload: bytes) -> None:
    with pytest.raises(MalformedError):
        revocation.sign(payload, ADA)


@pytest.mark.parametrize(("key", "value"), [("digest", "cd" * 32), ("reason", "another"), ("by", "reviewer ben")])
def test_an_entry_that_says_otherwise_than_what_was_signed_shows_in_the_audit(
    world: World, key: str, value: str
) -> None:
    envelope = signed(world, "ab" * 32)
    body = {
        "digest": "ab" * 32,
        "reason": "it bites",
        "rollback": True,
        "by": "reviewer ada",
        "envelope": envelope,
    }
    world.ledger.append("revoked", body | {key: value})
    assert [one.what for one in revocation.examine(world.ledger, PEOPLE)] == ["revocation"]


def test_an_entry_with_a_signature_of_nobody_shows_in_the_audit(world: World) -> None:
    body = {"digest": "ab" * 32, "reason": "it bites", "rollback": True, "by": "reviewer ada"}
    world.ledger.append("revoked", body | {"envelope": signed(world, "ab" * 32, signer=STRANGER)})
    world.ledger.append("revoked", body | {"envelope": "none"})
    assert len(list(revocation.examine(world.ledger, PEOPLE))) == 2


def test_an_entry_that_was_signed_for_another_instance_shows_in_the_audit(world: World) -> None:
    body = {"digest": "ab" * 32, "reason": "it bites", "rollback": True, "by": "reviewer ada"}
    log = f"acceptd/{'0' * 32}"
    world.ledger.append("revoked", body | {"envelope": signed(world, "ab" * 32, log=log)})
    (found,) = revocation.examine(world.ledger, PEOPLE)
    assert found.message == f"was signed for the log {log!r}"


def test_prepared_here_signed_elsewhere_and_recorded(world: World, tmp_path: Path) -> None:
    made = world.released()
    for path, mode in Paths(world.state).directories():
        path.mkdir(mode=mode, exist_ok=True)
    policies = shutil.copytree(Path(__file__).parents[2] / "policies", tmp_path / "policies")
    (world.state / "acceptd.toml").write_text(f"policies = {json.dumps(str(policies))}\n")
    signer = own.make(tmp_path / "key.pem")
    key = base64.b64encode(signer.public).decode()
    person = Reviewer(name="eve", team="security", key=key)
    (policies / "reviewers.toml").write_text(
        f'[[reviewers]]\nname = "{person.name}"\nteam = "{person.team}"\nkey = "{key}"\n'
    )
    at = ("--state", str(world.state))
    words = ("review", "revoke", made.bundle_digest[:8], "--reason", "it bites")
    both = commands.run(*words, *at)
    assert both.returncode == 2, "neither a key nor a file"
    prepared, done = str(tmp_path / "prepared"), str(tmp_path / "signed")
    assert commands.run(*words, "--output", prepared, *at).returncode == 0
    signing = commands.run("review", "sign", prepared, "--key", str(tmp_path / "key.pem"), "--output", done)
    assert signing.returncode == 0, signing.stderr
    assert made.bundle_digest in signing.stdout
    recorded = commands.run("review", "record", done, *at)
    assert recorded.returncode == 0, recorded.stderr
    assert f"revoked {made.bundle_digest[:12]}" in recorded.stdout
    assert f"{MODEL} production still names it" in recorded.stdout
    assert read_book(world.ledger).revoked[made.bundle_digest].by == "reviewer eve"


def test_all_that_is_signed_is_shown(world: World, tmp_path: Path) -> None:
    """A code that is waived behind many others, the end of a long reason: what is signed unseen counts too."""
    own.make(tmp_path / "key.pem")
    codes = [f"family/code-{number:02d}" for number in range(63)] + ["parity/mismatch"]
    document = {
        "schema": 1, "log": world.ledger.origin, "decision": "waive", "submission": "sub-1", "verdict_seq": 1,
        "leaf_hash": "ab" * 32, "bundle_digest": "ab" * 32, "policy_digest": "ab" * 32, "contract_digest": None,
        "profile_digest": "ab" * 32, "profiles_digest": None, "channel": "production",
        "reason": "a" * 1980 + " and \u202e the end", "expires_at": LATER, "nonce": "0" * 32, "codes": codes,
        "attestations": [],
    }  # fmt: skip
    (tmp_path / "payload").write_bytes(canonical(document))
    words = ("--key", str(tmp_path / "key.pem"), "--output", str(tmp_path / "signed"))
    done = commands.run("review", "sign", str(tmp_path / "payload"), *words)
    assert done.returncode == 0, done.stderr
    assert all(code in done.stdout for code in codes)
    assert "and \\u202e the end" in done.stdout


@pytest.mark.parametrize("taken", ["key.pem", "payload", "link"])
def test_what_is_signed_takes_the_place_of_nothing(world: World, tmp_path: Path, taken: str) -> None:
    """Least of all of the key that it was signed with."""
    own.make(tmp_path / "key.pem")
    (tmp_path / "link").symlink_to("key.pem")
    wanted = revocation.about(world.ledger.origin, "ab" * 32, reason="r", rollback=False, expires_at=LATER)
    (tmp_path / "payload").write_bytes(revocation.to_sign(wanted))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    words = ("--key", str(tmp_path / "key.pem"), "--output", str(tmp_path / taken))
    done = commands.run("review", "sign", str(tmp_path / "payload"), *words)
    assert done.returncode == 2
    assert "exists" in done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_that_could_not_be_written_whole_is_not_left(tmp_path: Path) -> None:
    """A part of a signed file, in the way of the whole one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(UsageError, match="File too large"):
            write_new(tmp_path / "signed", b"a" * 8192)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
    write_new(tmp_path / "signed", b"a" * 8192)
    assert (tmp_path / "signed").read_bytes() == b"a" * 8192
