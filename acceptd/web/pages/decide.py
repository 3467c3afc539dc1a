"""Approve, reject, revoke: bytes to sign go out, what a reviewer signed elsewhere comes back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from acceptd.errors import UsageError
from acceptd.record.entry import Entry
from acceptd.record.keystore import is_here
from acceptd.review import decision as decisions
from acceptd.review import revocation
from acceptd.review.desk import expiry
from acceptd.web import handover
from acceptd.web.asked import Asked
from acceptd.web.blocks import Cell, Facts, Field, Form, Links, Page, Raw, Section, Text, digest_cell, where
from acceptd.web.house import House
from acceptd.web.pages.submission import verdict_of

_DAYS: Final = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)
_MOST_DAYS: Final = 366
_SIGNED: Final = "it is signed, and goes into the ledger"
_BOUND: Final = (
    ("Bundle digest", "bundle_digest"),
    ("Policy digest", "policy_digest"),
    ("Contract digest", "contract_digest"),
    ("Profile digest", "profile_digest"),
    ("Profiles digest", "profiles_digest"),
    ("Evidence digest", "evidence_digest"),
)


@dataclass(frozen=True)
class Download:
    """Bytes to sign, and the name that they are saved under."""

    name: str
    data: bytes


def decision(house: House, wanted: str, parameters: Any) -> Page:
    """Return the page on which a submission is approved or rejected."""
    Asked(parameters, ())
    entry = _judged(house, wanted)
    desk = house.desk()
    names = [rule.name for rule in desk.policy.all_channels()]
    here = where("submissions", entry.submission, "decide")
    body = entry.body
    facts = [(name, Cell(body[key], look="code")) for name, key in _BOUND if body.get(key)]
    return Page(
        f"Decide about {entry.submission}",
        [
            Links([("The submission", where("submissions", entry.submission))]),
            Facts([
                ("Verdict", Cell(body.get("verdict"), look=str(body.get("verdict")))),
                ("Model", body.get("model")),
                *facts, ("Leaf hash", Cell(entry.leaf_hash.hex(), look="code")),
                *((f"Standing on {name}", desk.weigh(entry, name).reason) for name in names),
            ]),
            Section("1. Get the bytes to sign", [
                Form(f"{here}/prepare", "Download the bytes to sign", [
                    Field("decision", "Decision", "approve", [(one, one) for one in handover.WORDS]),
                    Field("channel", "Channel", desk.policy.release.channel, [(one, one) for one in names]),
                    Field("reason", "Reason", hint=_SIGNED, most=2000, required=True),
                    Field("days", "Days until it expires", "30", hint="1 to 366", most=3, required=True),
                ], post=True),
            ]),
            *_sign(f"decision-{entry.submission}"),
            _bring(f"{here}/record", "Record the decision"),
        ],
        nav="Queue",
        above="Approve or reject",
    )  # fmt: skip


def prepare_decision(house: House, wanted: str, form: Any) -> Download:
    """Return the bytes of a decision, by the very functions that `acceptd review approve --output` uses."""
    entry = _judged(house, wanted)
    word = _field(form, "decision")
    if word not in handover.WORDS:
        raise UsageError(f"{word!r:.40} is no decision", remedy="choose approve or reject")
    with handover.meant():
        made = decisions.about(
            entry,
            house.ledger.origin,
            "approve" if word == "approve" else "reject",
            channel=house.policy().channel(_field(form, "channel")).name,
            reason=_reason(form),
            expires_at=expiry(_days(form)),
        )
    return Download(f"decision-{entry.submission}.json", decisions.to_sign(made))


def record_decision(house: House, wanted: str, data: bytes) -> Page:
    """Hand a signed decision over, and return the page of what came of it."""
    entry = _judged(house, wanted)
    submission = str(entry.submission)
    handover.expect_decision(handover.read(data), house.reviewers(), submission)
    return _outcome(house, data, "The submission", where("submissions", submission), "Queue")


def revoke(house: House, digest: str, parameters: Any) -> Page:
    """Return the page on which a bundle is revoked."""
    Asked(parameters, ())
    here = where("releases", "digest", digest, "revoke")
    book = house.book()
    rows = (book.current(*place) for place in sorted(book.channels))
    current = [f"{row.model_id} {row.channel}" for row in rows if row is not None and row.digest == digest]
    known = book.revoked.get(digest)
    missing = "" if is_here(house.state, "revocation") else _OFFLINE
    return Page(
        f"Revoke {digest[:12]}…",
        [
            *([Text(missing, "bad", own=True)] if missing else []),
            Facts([
                ("Bundle digest", digest_cell(digest)), ("In full", Cell(digest, look="code")),
                ("Current on", ", ".join(current) or "no channel"),
                ("Revoked already", f"at {known.at}: {known.reason}" if known else None),
            ]),
            Text("No loader opens a revoked bundle, and nobody can promote it again. There is no way back."),
            Section("1. Get the bytes to sign", [
                Form(f"{here}/prepare", "Download the bytes to sign", [
                    Field("reason", "Reason", hint=_SIGNED, most=2000, required=True),
                    Field("rollback", "Also roll back every channel that serves it", "yes", type="checkbox"),
                    Field("days", "Days until it expires", "1", hint="1 to 366", most=3, required=True),
                ], post=True),
            ]),
            *_sign(f"revocation-{digest[:12]}"),
            _bring(f"{here}/record", "Revoke the bundle"),
        ],
        nav="Releases",
        above="Revocation",
    )  # fmt: skip


def prepare_revocation(house: House, digest: str, form: Any) -> Download:
    """Return the bytes of a revocation."""
    with handover.meant():
        made = revocation.about(
            house.ledger.origin,
            digest,
            reason=_reason(form),
            rollback=_field(form, "rollback") == "yes",
            expires_at=expiry(_days(form)),
        )
    return Download(f"revocation-{digest[:12]}.json", revocation.to_sign(made))


def record_revocation(house: House, digest: str, data: bytes) -> Page:
    """Hand a signed revocation over, and return the page of what came of it."""
    handover.expect_revocation(handover.read(data), house.reviewers(), digest)
    return _outcome(house, data, "The bundle", where("releases", "digest", digest), "Releases")


_OFFLINE: Final = (
    "The revocation key is not in this state: bring it back, or run `acceptd review record` where it is. "
    "What you sign here counts there too."
)


def _judged(house: House, wanted: str) -> Entry:
    entry = verdict_of(house, house.submission(wanted))
    if entry is not None and entry.body.get("observed"):
        raise UsageError(f"submission {wanted} was only observed", remedy="submit it again outside observe mode")
    if entry is None or entry.body.get("verdict") not in {"accepted", "held"}:
        said = f"is {entry.body.get('verdict')}: no decision promotes it" if entry else "has no verdict yet"
        raise UsageError(f"submission {wanted} {said}", remedy="the queue shows what waits for a person")
    return entry


def _sign(name: str) -> list[Section]:
    commands = f"acceptd review sign {name}.json --key YOUR-KEY.pem --output {name}.signed"
    about = Text("On your own machine. It shows what you sign; it needs no state, and your key stays there.")
    return [Section("2. Sign them", [about, Raw("Command", commands)])]


def _bring(action: str, button: str) -> Section:
    field = Field("file", "The signed file", type="file", hint="at most 60 KiB")
    form = Form(action, button, [field], post=True, upload=True)
    return Section("3. Bring the signed file", [form])


def _outcome(house: House, data: bytes, words: str, address: str, nav: str) -> Page:
    found = handover.record(house.state, data)
    good = found.code == 0
    said = "It is on record." if good else "The command refused it, or could not end it; this is what it said."
    return Page(
        "Recorded" if good else "Not recorded",
        [
            Text(said, "good" if good else "bad"),
            Raw("What `acceptd review record` said", found.said),
            Links([(words, address)]),
        ],
        nav=nav,
    )


def _field(form: Any, name: str) -> str:
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


def _reason(form: Any) -> str:
    reason = _field(form, "reason")
    if not reason:
        raise UsageError("a decision needs a reason", remedy="say why: it is signed, and goes into the ledger")
    return reason


def _days(form: Any) -> int:
    text = _field(form, "days")
    if not _DAYS.fullmatch(text) or int(text) > _MOST_DAYS:
        raise UsageError(f"days: {text!r:.40} is no number from 1 to {_MOST_DAYS}", remedy="give fewer days")
    return int(text)
