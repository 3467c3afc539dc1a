"""Approve, reject and revoke by the console, end to end: bytes out, a real signature, the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.record.log import Ledger
from acceptd.review import decision as decisions
from acceptd.review import keys as own
from acceptd.review import revocation
from acceptd.web.guard import MAX_BODY
from acceptd.web.pages import decide
from tests import commands
from tests.release_world import MODEL, memory_directory
from tests.web_world import Visit, WebWorld, make, visit

pytestmark = pytest.mark.acceptance


@pytest.fixture
def fresh() -> Iterator[WebWorld]:
    """An instance of its own: these tests change it."""
    root = memory_directory()
    made = make(root, more=2)
    yield made
    made.world.close()
    shutil.rmtree(root)


@pytest.fixture
def reviewer(fresh: WebWorld) -> Iterator[Visit]:
    with visit(fresh) as one:
        one.enter()
        yield one


def prepare(visitor: Visit, address: str, **fields: str) -> bytes:
    answer = visitor.post(f"{address}/prepare", word=visitor.word, **fields)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    return bytes(answer.content)


def upload(visitor: Visit, address: str, data: bytes) -> Any:
    return visitor.post(f"{address}/record", word=visitor.word, files={"file": ("x.signed", data)})


def sign_away(world: WebWorld, payload: bytes, tmp_path: Path, who: str = "ada") -> bytes:
    """Sign as a reviewer does: by the command, on a machine without the state."""
    (tmp_path / "payload").write_bytes(payload)
    (tmp_path / "out").unlink(missing_ok=True)
    words = (
        "review",
        "sign",
        str(tmp_path / "payload"),
        "--key",
        str(world.key(who)),
        "-o",
        str(tmp_path / "out"),
    )
    done = commands.run(*words)
    assert done.returncode == 0, done.stderr
    return (tmp_path / "out").read_bytes()


def size(world: WebWorld) -> int:
    return world.world.ledger.tree().size


def test_a_held_bundle_is_approved_and_promoted_by_a_signature_from_elsewhere(
    fresh: WebWorld, reviewer: Visit, tmp_path: Path
) -> None:
    here = f"/submissions/{fresh.held}/decide"
    page = reviewer.get(here)
    assert page.status_code == 200
    assert f"acceptd review sign decision-{fresh.held}.json" in page.text
    payload = prepare(reviewer, here, decision="approve", channel="production", reason="read <b>it</b>", days="30")
    said = decisions.read(payload)
    assert (said.submission, said.decision, said.reason) == (fresh.held, "approve", "read <b>it</b>")
    before = size(fresh)
    answer = upload(reviewer, here, sign_away(fresh, payload, tmp_path))
    assert answer.status_code == 200
    assert "It is on record." in answer.text, answer.text
    assert f"{MODEL} production is now 3" in answer.text
    assert size(fresh) > before
    (entry,) = fresh.world.ledger.entries(kind="decision")
    assert entry.body["reviewer"] == "ada"
    shown = reviewer.get(f"/submissions/{fresh.held}").text
    assert "approved by ada" in shown
    assert "read &lt;b&gt;it&lt;/b&gt;" in shown
    again = upload(reviewer, here, (tmp_path / "out").read_bytes())
    assert "Not recorded" in again.text
    assert "on record already" in again.text


def test_a_held_bundle_is_rejected_and_then_no_approval_promotes_it(
    fresh: WebWorld, reviewer: Visit, tmp_path: Path
) -> None:
    here = f"/submissions/{fresh.held}/decide"
    for word, who, told in (("reject", "ada", "rejected by ada"), ("approve", "ben", "rejected by ada")):
        payload = prepare(reviewer, here, decision=word, channel="production", reason="no", days="30")
        answer = upload(reviewer, here, sign_away(fresh, payload, tmp_path, who))
        assert "It is on record." in answer.text
        assert told in answer.text
    assert "is now 3" not in answer.text


def test_a_bundle_is_revoked_by_a_signature_from_elsewhere(
    fresh: WebWorld, reviewer: Visit, tmp_path: Path
) -> None:
    here = f"/releases/digest/{fresh.released}/revoke"
    assert f"{MODEL} production" in reviewer.get(here).text
    payload = prepare(reviewer, here, reason="it bites", rollback="yes", days="1")
    assert revocation.read(payload).bundle_digest == fresh.released
    answer = upload(reviewer, here, sign_away(fresh, payload, tmp_path))
    assert "It is on record." in answer.text, answer.text
    assert f"revoked {fresh.released[:12]}" in answer.text
    entry = list(fresh.world.ledger.entries(kind="revoked"))[-1]
    assert (entry.body["by"], entry.body["rollback"]) == ("reviewer ada", True)
    assert "Revoked at" in reviewer.get(f"/releases/digest/{fresh.released}").text
    verified = commands.run("ledger", "verify", "--state", str(fresh.state))
    assert "revocation" not in verified.stdout


def test_every_digest_that_is_signed_stands_on_the_page_to_compare(world: WebWorld, inside: Visit) -> None:
    assert {key for _, key in decide._BOUND} >= set(decisions._BOUND)
    here = f"/submissions/{world.held}/decide"
    payload = prepare(inside, here, decision="reject", channel="production", reason="r", days="1")
    page = inside.get(here).text
    document = json.loads(payload)
    digests = [value for value in document.values() if isinstance(value, str) and len(value) == 64]
    assert len(digests) >= 4
    assert all(value in page for value in digests)


def signed(payload: bytes, key: Path) -> bytes:
    of: Any = revocation if revocation.is_one(payload) else decisions
    return json.dumps(of.sign(payload, own.load(key))).encode()


def about(world: WebWorld, word: Any, submission: str = "", **more: Any) -> bytes:
    with Ledger.open(world.state, create=False) as ledger:
        entry = next(ledger.entries(kind="verdict", submission=submission or world.held))
        terms = {"channel": "production", "reason": "r", "expires_at": "2099-01-01T00:00:00Z"}
        return decisions.to_sign(decisions.about(entry, ledger.origin, word, **(terms | more)))


def test_what_is_no_signature_of_a_reviewer_about_this_submission_enters_nothing(
    fresh: WebWorld, reviewer: Visit, tmp_path: Path
) -> None:
    here, before = f"/submissions/{fresh.held}/decide", size(fresh)
    stranger = tmp_path / "stranger.pem"
    own.make(stranger)
    good = signed(about(fresh, "approve"), fresh.key("ada"))
    other = next(
        one.submission for one in fresh.world.ledger.entries(kind="verdict") if one.submission != fresh.held
    )
    tampered = json.loads(good)
    tampered["signatures"][0]["sig"] = tampered["signatures"][0]["sig"][:-4] + "AAA="
    revoke = revocation.about(
        fresh.world.ledger.origin, fresh.released, reason="r", rollback=False, expires_at="2099-01-01T00:00:00Z"
    )
    files = {
        "empty": b"",
        "no JSON": b"\xff\x00",
        "deep": b"[" * 30_000,
        "a number": b"7",
        "no envelope": b"{}",
        "not signed": about(fresh, "approve"),
        "a stranger": signed(about(fresh, "approve"), stranger),
        "tampered": json.dumps(tampered).encode(),
        "another submission": signed(about(fresh, "approve", str(other)), fresh.key("ada")),
        "to waive": signed(about(fresh, "waive", codes=("contract/missing",)), fresh.key("ada")),
        "to break the glass": signed(about(fresh, "break-glass"), fresh.key("ada")),
        "a revocation": signed(revocation.to_sign(revoke), fresh.key("ada")),
    }
    for name, data in files.items():
        answer = upload(reviewer, here, data)
        assert answer.status_code == 400, name
        assert "It is on record" not in answer.text, name
        assert "Traceback" not in answer.text, name
    assert upload(reviewer, here, b"a" * MAX_BODY).status_code == 413
    assert reviewer.post(f"{here}/record", word=reviewer.word, file="text").status_code == 400
    assert size(fresh) == before
    wrong = upload(reviewer, f"/releases/digest/{'ab' * 32}/revoke", files["a revocation"])
    assert wrong.status_code == 400
    assert size(fresh) == before


def test_expired_or_of_another_instance_is_refused_by_the_command_itself(fresh: WebWorld, reviewer: Visit) -> None:
    here, before = f"/submissions/{fresh.held}/decide", size(fresh)
    answer = upload(
        reviewer, here, signed(about(fresh, "approve", expires_at="2020-01-01T00:00:00Z"), fresh.key("ada"))
    )
    assert "Not recorded" in answer.text
    assert "expired at 2020" in answer.text
    assert size(fresh) == before


@pytest.mark.parametrize(
    "fields",
    [
        {"decision": "break-glass"}, {"decision": ""}, {"channel": "nowhere"}, {"channel": "<b>"},
        {"reason": "  "},
        {"reason": "a" * 2001}, {"days": "0"}, {"days": "367"}, {"days": "-1"}, {"days": "x"},
    ],
)  # fmt: skip
def test_what_cannot_be_a_decision_is_not_prepared(world: WebWorld, inside: Visit, fields: dict[str, str]) -> None:
    right = {"decision": "approve", "channel": "production", "reason": "r", "days": "1"}
    answer = inside.post(f"/submissions/{world.held}/decide/prepare", word=inside.word, **(right | fields))
    assert answer.status_code == 400
    assert "content-disposition" not in answer.headers


def test_nothing_is_prepared_or_recorded_without_the_word_or_from_another_site(
    world: WebWorld, inside: Visit
) -> None:
    here = f"/submissions/{world.held}/decide"
    right = {"decision": "approve", "channel": "production", "reason": "r", "days": "1"}
    assert inside.post(f"{here}/prepare", **right).status_code == 403
    assert inside.post(f"{here}/prepare", site="cross-site", word=inside.word, **right).status_code == 403
    data = signed(about(world, "approve"), world.key("ada"))
    assert inside.post(f"{here}/record", files={"file": ("x", data)}).status_code == 403
    with visit(world) as outside:
        assert outside.post(f"{here}/record", word="x", files={"file": ("x", data)}).status_code == 401
        assert outside.post(f"{here}/prepare", **right).status_code == 401
    assert list(world.world.ledger.entries(kind="decision")) == []


def test_nothing_is_recorded_in_a_state_that_took_the_place_of_the_one_shown(
    fresh: WebWorld, reviewer: Visit
) -> None:
    data = signed(about(fresh, "approve"), fresh.key("ada"))
    ledger, restored = fresh.state / "ledger.sqlite3", fresh.world.root / "restored"
    shutil.copy(ledger, restored)
    restored.replace(ledger)
    answer = upload(reviewer, f"/submissions/{fresh.held}/decide", data)
    assert answer.status_code == 500
    assert "was replaced" in answer.text
    with Ledger.open(fresh.state, create=False) as now:
        assert list(now.entries(kind="decision")) == []


def test_what_is_rejected_nobody_can_decide_about(world: WebWorld, inside: Visit) -> None:
    answer = inside.get(f"/submissions/{world.hostile}/decide")
    assert answer.status_code == 400
    assert "no decision promotes it" in answer.text


def test_a_revocation_key_that_is_elsewhere_is_said_before_anybody_signs(fresh: WebWorld, reviewer: Visit) -> None:
    (fresh.state / "keys" / "revocation.pem").rename(fresh.world.root / "offline.pem")
    page = reviewer.get(f"/releases/digest/{fresh.released}/revoke").text
    assert "The revocation key is not in this state" in page
    prepared = prepare(reviewer, f"/releases/digest/{fresh.released}/revoke", reason="r", days="1")
    answer = upload(reviewer, f"/releases/digest/{fresh.released}/revoke", signed(prepared, fresh.key("ada")))
    assert "Not recorded" in answer.text
    assert "revocation key is not here" in answer.text
