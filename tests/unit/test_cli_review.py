"""`acceptd review` as people call it: what waits, what a decision binds, and whose words count for nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.record.keys import private_pem
from acceptd.release.book import read_book
from acceptd.review import keys as own
from tests import called
from tests.office_world import POLICY, OfficeWorld
from tests.release_world import MODEL, memory_directory
from tests.review_world import held

pytestmark = pytest.mark.unit
REASON = ("--reason", "read the card")


@pytest.fixture(scope="module")
def base() -> Iterator[OfficeWorld]:
    made = OfficeWorld(memory_directory())
    held(made)
    ada = own.make(made.root / "ada.pem")
    own.make(made.root / "stranger.pem")
    line = f'schema = 1\n[[reviewers]]\nname = "ada"\nteam = "security"\nkey = "{own.public_text(ada)}"\n'
    (made.root / "policies" / "reviewers.toml").write_text(line, encoding="utf-8")
    made.close()
    yield made
    shutil.rmtree(made.root)


@pytest.fixture
def world(base: OfficeWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[OfficeWorld]:
    made = base.copied(memory_directory())
    monkeypatch.chdir(made.root)
    yield made
    made.close()
    shutil.rmtree(made.root)


HELD = "sub-4"
KEY = ("--key", "ada.pem")


def away(*words: str, code: int = 0) -> str:
    """Run what needs no state."""
    done = called.run("review", *words)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def current(world: OfficeWorld, channel: str = "production") -> str:
    row = read_book(world.ledger).current(MODEL, channel)
    return "" if row is None else row.digest


def test_what_waits_is_listed_with_what_is_missing(world: OfficeWorld) -> None:
    (accepted, waiting) = json.loads(world.said("review", "list", "--json"))
    assert (waiting["submission"], waiting["holds"], waiting["channel"]) == (
        HELD,
        "contract/missing",
        "production",
    )
    assert (accepted["submission"], accepted["holds"], accepted["channel"]) == ("sub-3", "", "late")
    rows = world.said("review", "list").splitlines()
    assert [row.split("  ")[-1].strip() for row in rows] == [
        "standing", "late: 1 more of 1 approvals needed", "1 more of 1 approvals needed"
    ]  # fmt: skip


def test_what_a_channel_has_already_or_will_not_get_waits_for_nobody(world: OfficeWorld) -> None:
    def waiting() -> list[tuple[str, str]]:
        return [(one["submission"], one["channel"]) for one in json.loads(world.said("review", "list", "--json"))]

    assert ("sub-3", "late") in waiting()
    world.promote(world.waiting, channel="late")
    assert ("sub-3", "late") not in waiting()
    newer = world.accepted("4.0.0")
    world.promote(newer, channel="late")
    assert [one for one in waiting() if one[0] != HELD] == [], (
        "what was judged before it is not asked for any more"
    )


def test_what_is_shown_is_what_a_decision_binds(world: OfficeWorld) -> None:
    world.said("review", "attest", HELD, *REASON, "--what", "license", *KEY)
    world.said("review", "waive", HELD, *REASON, "--code", "run/crash", *KEY, "--days", "2")
    facts = json.loads(world.said("review", "show", HELD, "--json"))
    assert (facts["verdict"], facts["holds"], facts["standing"]) == (
        "held", ["contract/missing"], "1 more of 1 approvals needed"
    )  # fmt: skip
    keys = ("decision", "codes", "attestations", "expired")
    assert [[one[key] for key in keys] for one in facts["decisions"]] == [
        ["attest", [], ["license"], False], ["waive", ["run/crash"], [], False]
    ]  # fmt: skip
    text = world.said("review", "show", HELD)
    assert f"leaf_hash        {facts['leaf_hash']}" in text
    assert "contract_digest  -" in text
    assert "waive run/crash by ada (security) until " in text


def test_an_approval_that_suffices_promotes_at_once(world: OfficeWorld) -> None:
    said = world.said("review", "approve", HELD, *REASON, *KEY).splitlines()
    assert said[1] == "standing: approved by ada"
    assert said[2].startswith(f"{MODEL} production is now 3 (")
    assert "approved by ada" in world.said("release", "history", MODEL)


def test_a_channel_that_is_not_automatic_waits_for_who_promotes(world: OfficeWorld) -> None:
    said = world.said("review", "approve", HELD, *REASON, *KEY, "--channel", "late").splitlines()
    assert said[1:] == ["standing: approved by ada", f"promote it: acceptd review promote {HELD} --channel late"]
    assert current(world, "late") == ""
    assert f"{MODEL} late is now 1 (" in world.said("review", "promote", HELD, "--channel", "late")


def test_an_approval_for_a_frozen_channel_is_on_record_and_promotes_nothing(world: OfficeWorld) -> None:
    before = current(world)
    world.said("release", "freeze", MODEL, *REASON)
    said = world.said("review", "approve", HELD, *REASON, *KEY).splitlines()
    assert said[1] == "standing: approved by ada"
    assert said[2].startswith("not promoted: ")
    assert current(world) == before
    assert [one.body["decision"] for one in world.ledger.entries(kind="decision")] == ["approve"]


def test_a_rejection_stands_against_every_approval(world: OfficeWorld) -> None:
    assert "standing: rejected by ada" in world.said("review", "reject", HELD, *REASON, *KEY)
    assert "rejected by ada" in world.said("review", "approve", HELD, *REASON, *KEY)
    error, remedy = world.refused("review", "promote", HELD)
    assert error == f"{HELD} may not be promoted: rejected by ada"
    assert remedy == f"see `acceptd review show {HELD}`"
    assert [one["submission"] for one in json.loads(world.said("review", "list", "--json"))] == ["sub-3", HELD]


def test_glass_is_broken_alone_where_the_policy_lets_it_and_nowhere_else(world: OfficeWorld) -> None:
    policy = world.root / "policies" / "office.toml"
    policy.write_text(POLICY.replace("break_glass = true", "break_glass = false"))
    assert "standing: 1 more of 1 approvals needed" in world.said("review", "break-glass", HELD, *REASON, *KEY)
    policy.write_text(POLICY)
    said = world.said("review", "break-glass", HELD, *REASON, *KEY).splitlines()
    assert said[1] == "standing: BROKEN GLASS by ada"
    assert said[2].startswith(f"{MODEL} production is now 3 (")


def test_a_reviewer_revokes_here_or_prepares_it_for_another_machine(world: OfficeWorld) -> None:
    first, second = (one.bundle_digest for one in (world.first, world.second))
    said = world.said("review", "revoke", second[:8], *REASON, *KEY, "--rollback")
    assert said.splitlines() == [
        f"revoked {second[:12]}: the list is number 1 now", f"  {MODEL} production is now 3 ({first[:12]})"
    ]  # fmt: skip
    assert world.said("review", "revoke", first, *REASON, "--output", "payload").startswith("wrote ")
    shown = away("sign", "payload", *KEY, "--output", "signed")
    assert f"bundle_digest    {first}" in shown
    assert f"revoked {first[:12]}: the list is number 2 now" in world.said("review", "record", "signed")


def test_a_decision_is_prepared_here_and_signed_where_the_key_is(world: OfficeWorld) -> None:
    size = world.ledger.tree().size
    prepared = ("review", "approve", HELD, *REASON, "--output", "payload")
    assert world.said(*prepared).startswith("wrote payload: sign it with `acceptd review sign`")
    assert world.ledger.tree().size == size
    shown = away("sign", "payload", *KEY, "--output", "signed")
    assert "decision         approve" in shown
    assert "approved by ada" in world.said("review", "record", "signed")
    assert world.refused("review", "record", "signed")[0] == "this decision is on record already"
    assert world.refused(*prepared) == ("payload exists", "name another file")


def test_what_somebody_else_signed_is_not_put_on_record(world: OfficeWorld) -> None:
    error, _ = world.refused("review", "approve", HELD, *REASON, "--key", "stranger.pem", code=5)
    assert "which is no reviewer's key" in error
    Path("text").write_text("{")
    Path("deep").write_text("[" * 100_000)
    Path("empty").write_text("{}")
    for name, told in (
        ("text", "text: no signed decision"), ("deep", "deep: no signed decision"),
        ("empty", "an envelope has payload, payloadType and signatures"),
    ):  # fmt: skip
        assert world.refused("review", "record", name, code=5)[0] == told
    Path("large").write_bytes(b" " * ((1 << 20) + 1))
    assert world.refused("review", "record", "large") == (
        "large: larger than 1048576 bytes", "name a signed decision"
    )  # fmt: skip


@pytest.mark.parametrize("what", ["no PEM", "with a password", "another kind"])
def test_a_file_that_is_no_key_of_a_reviewer_signs_nothing(world: OfficeWorld, what: str) -> None:
    from cryptography.hazmat.primitives import serialization as forms

    pem, said = b"no key", "no private key in PKCS8 PEM without a password"
    if what == "with a password":
        lock = forms.BestAvailableEncryption(b"secret")
        pem = Ed25519PrivateKey.generate().private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, lock)
    elif what == "another kind":
        plain = forms.NoEncryption()
        pem = generate_private_key(SECP256R1()).private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, plain)
        said = "not an Ed25519 key"
    Path("key.pem").write_bytes(pem)
    Path("key.pem").chmod(0o600)
    assert world.refused("review", "approve", HELD, *REASON, "--key", "key.pem") == (
        f"key.pem: {said}", "name your private key (`review keygen`)"
    )  # fmt: skip


def test_a_key_is_made_with_the_lines_that_the_operator_needs(world: OfficeWorld) -> None:
    said = away("keygen", "ben.pem", "--name", "ben", "--team", "safety")
    reviewers = world.root / "policies" / "reviewers.toml"
    reviewers.write_text(reviewers.read_text() + said)
    assert "approved by ben" in world.said("review", "approve", HELD, *REASON, "--key", "ben.pem")
    assert away("keygen", "ben.pem", code=2).splitlines()[0] == "acceptd: ben.pem exists"
    assert Path("ben.pem").read_bytes() == private_pem(_private(Path("ben.pem")))


def _private(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    found = load_pem_private_key(path.read_bytes(), password=None)
    assert isinstance(found, Ed25519PrivateKey)
    return found


BOTH = "give --key to sign here, or --output for the bytes to sign"


@pytest.mark.parametrize(
    ("words", "error", "remedy"),
    [
        (("show", "x"), "0 submissions begin with 'x'", "see `acceptd review list`"),
        (("show", "sub-"), "2 submissions begin with 'sub-'", "see `acceptd review list`"),
        (("promote", "x"), "0 submissions begin with 'x'", "see `acceptd review list`"),
        (("promote", HELD, "--channel", "moon"), "has no channel 'moon'", "correct the name"),
        (("promote", HELD), f"{HELD} may not be promoted: 1 more of 1", f"see `acceptd review show {HELD}`"),
        (("approve", HELD, *REASON), BOTH, "one of the two"),
        (("approve", HELD, *REASON, *KEY, "--output", "o"), BOTH, "one of the two"),
        (("revoke", "00" * 32, *REASON), BOTH, "one of the two"),
        (("approve", HELD, *REASON, *KEY, "--channel", "moon"), "has no channel 'moon'", "correct the name"),
        (("approve", HELD, *REASON, "--key", "/nowhere"), "/nowhere", "name your private key"),
        (("approve", HELD, "--reason", "", *KEY), "reason: is ''", "see acceptd review approve --help"),
        (("reject", HELD, "--reason", "x" * 2001, *KEY), "reason: ", "see acceptd review reject --help"),
        (("revoke", "00" * 32, "--reason", "", *KEY), "reason: is ''", "see acceptd review revoke --help"),
        (("revoke", "x" * 64, *REASON, *KEY), "bundle_digest: ", "see acceptd review revoke --help"),
        (("attest", HELD, *REASON, "--what", "luck", *KEY), "attestations[0]: is 'luck'", "see acceptd review"),
        (("waive", HELD, *REASON, "--code", "contract/misssing", *KEY), "no finding code 'contract/misssing'",
         "did you mean contract/missing"),
        (("waive", HELD, *REASON, "--code", "zzz", *KEY), "no finding code 'zzz'", "acceptd policy explain"),
        (("record", "/nowhere"), "/nowhere: No such file or directory", "name a signed decision"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else None,
)  # fmt: skip
def test_words_that_cannot_be_meant_decide_nothing(
    world: OfficeWorld, words: tuple[str, ...], error: str, remedy: str
) -> None:
    told, mend = world.refused("review", *words)
    assert error in told
    assert mend.startswith(remedy)
    assert not Path("o").exists()
