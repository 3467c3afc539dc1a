"""What there is to say about one row of a portfolio, and how urgent it is. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from acceptd.policy.names import seconds_until
from acceptd.portfolio.facts import Agreement, Facts, Judged, ProfileWord, Promise
from acceptd.release.book import Row as Release
from acceptd.release.holds import Hold
from acceptd.report.observed import would

RANKS: Final = {
    "revoked": 0,
    "contract-expired": 1,
    "contract-refused": 1,
    "held": 2,
    "rejected": 3,
    "inconclusive": 3,
    "would-refuse": 6,
    "not-promoted": 3,
    "contract-expiring": 4,
    "waiver-expired": 4,
    "waiver-expiring": 4,
    "approval-expired": 4,
    "approval-expiring": 4,
    "frozen": 5,
    "contract-superseded": 5,
    "profile": 5,
    "all-frozen": 7,
    "pinned": 7,
    "rolled-back": 7,
    "policy-changed": 8,
}
"""By code; the lower, the more urgent."""
WORDS: Final = {
    "revoked": "revoked, and still current",
    "contract-expired": "contract expired",
    "contract-refused": "contract refused",
    "held": "waits for a person",
    "rejected": "newest rejected",
    "inconclusive": "newest inconclusive",
    "would-refuse": "would be refused",
    "not-promoted": "accepted, not promoted",
    "contract-expiring": "contract expires soon",
    "waiver-expired": "waiver expired",
    "waiver-expiring": "waiver expires soon",
    "approval-expired": "approval expired",
    "approval-expiring": "approval expires soon",
    "frozen": "frozen",
    "contract-superseded": "contract superseded",
    "profile": "not under every profile",
    "all-frozen": "frozen for all models",
    "pinned": "pinned",
    "rolled-back": "rolled back",
    "policy-changed": "accepted under another policy",
}
"""What a code means, in a few words: for summaries."""
_NOUNS: Final = {"approve": "approval", "attest": "attestation", "break-glass": "broken glass"}
_INFORMATION: Final = 7
DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to know. ``text`` is plain and not yet escaped; ``at`` is when it comes due, empty where never."""

    code: str
    text: str
    at: str = ""

    @property
    def rank(self) -> int:
        """How urgent it is; the lower, the more."""
        return RANKS[self.code]

    @property
    def attention(self) -> bool:
        """Whether it is for a person to do, not only to know."""
        return self.rank < _INFORMATION

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {**asdict(self), "rank": self.rank, "attention": self.attention}


@dataclass(frozen=True, slots=True)
class Place:
    """One model on one channel, with all that is said about it. ``judged`` is the verdict that it rests on."""

    facts: Facts
    model_id: str
    channel: str
    """Empty where the model never had a release."""
    current: Release | None
    judged: Judged | None
    newest: Judged | None
    """The model's newest verdict, where it is another one."""
    contract: Agreement | None
    promises: Sequence[Promise]
    frozen: Sequence[Hold]
    pins: Sequence[Hold]


def notes(place: Place, word: ProfileWord, *, at: str, within: int) -> list[Note]:
    """Return what there is to say about one place under one profile at a time, the most urgent first.

    ``within`` is how many seconds before its end something counts as about to expire, and after it as news.
    """
    found = [
        *_release(place),
        *_newest(place, at),
        *_unpromoted(place),
        *_contract(place, at, within),
        *_promises(place, at, within),
        *_acceptance(place, word),
    ]
    return sorted(found, key=lambda note: (note.rank, note.at or "9", note.text))


def _release(place: Place) -> Iterator[Note]:
    current = place.current
    if current is not None:
        revoked = place.facts.book.revoked.get(current.digest)
        if revoked is not None:
            yield Note("revoked", f"revoked {revoked.at[:10]}: {revoked.reason}")
        if current.kind == "rollback":
            yield Note("rolled-back", f"rolled back {current.activated_at[:10]}: {current.reason}")
    for one in place.frozen:
        # A freeze of every model says nothing about this one.
        code, whom = ("frozen", "") if one.model_id else ("all-frozen", " for all models")
        yield Note(code, f"{place.channel} is frozen{whom} since {one.at[:10]}: {one.reason}")
    for one in place.pins:
        yield Note("pinned", f"pinned since {one.at[:10]}: {one.reason}")


def _newest(place: Place, at: str) -> Iterator[Note]:
    """Say what became of the model's newest verdict, where it is no acceptance and nothing was promoted by it."""
    one = place.newest
    if one is None or one.verdict not in RANKS:
        return
    if one.observed:  # nothing was blocked by it, and nobody is asked
        yield Note("would-refuse", f"{one.submission} {would(one.verdict)} {one.judged_at[:10]}: {one.reason}")
        return
    refused = [
        said.reviewer
        for said in place.promises
        if (said.kind, said.verdict_seq) == ("reject", one.seq) and said.expires_at > at
    ]
    if one.verdict == "held" and refused:
        yield Note("rejected", f"{one.submission} held, and rejected by {', '.join(refused)}")
    else:
        yield Note(one.verdict, f"{one.submission} {one.verdict} {one.judged_at[:10]}: {one.reason}")


def _unpromoted(place: Place) -> Iterator[Note]:
    """Say where a bundle that was accepted later did not come, though its channel takes what is accepted."""
    accepted, rules = place.facts.accepted.get(place.model_id), place.facts.rules
    channel = place.channel or (rules.channel if rules else "")
    if accepted is None or accepted.observed or rules is None or channel not in rules.automatic:
        return
    # What was current here once and is no more was rolled back: a person wanted that.
    rows = place.facts.book.rows(place.model_id, channel)
    was = any(row.digest == accepted.bundle_digest and row.activated_seq >= 0 for row in rows)
    if not was and (place.current is None or place.current.verdict_seq < accepted.seq):
        text = f"{accepted.submission} accepted {accepted.judged_at[:10]}, not promoted to {channel}"
        yield Note("not-promoted", text)


def _contract(place: Place, at: str, within: int) -> Iterator[Note]:
    contract, judged = place.contract, place.judged
    if contract is None:
        return
    if contract.status in {"refused", "unverified"}:
        yield Note("contract-refused", f"contract {contract.status}: {contract.reason}")
    if end := contract.valid_until:
        left = seconds_until(end, at)
        named = f"contract version {contract.version}"
        if left <= 0:
            yield Note("contract-expired", f"{named} expired {span(left)}, {end[:10]}: it holds every bundle", end)
        elif left <= within:
            yield Note("contract-expiring", f"{named} expires {span(left)}, {end[:10]}", end)
    if judged is not None and contract.digest and judged.contract_digest != contract.digest:
        before = "another contract" if judged.contract_digest else "no contract"
        text = f"{judged.verdict} under {before}; version {contract.version} is in force"
        yield Note("contract-superseded", text)


def _promises(place: Place, at: str, within: int) -> Iterator[Note]:
    """Say which words of people run out and are still needed: what was promoted needs no approval any more."""
    for one in place.promises:
        left = seconds_until(one.expires_at, at)
        if not -within <= left <= within or not _needed(place, one):
            continue
        what, kind = f"waiver of {', '.join(one.codes)}", "waiver"
        if one.kind != "waive":
            what, kind = f"{_NOUNS[one.kind]} of {one.submission}", "approval"
        word, state = ("expired", "expired") if left <= 0 else ("expires", "expiring")
        text = f"{what} by {one.reviewer} {word} {span(left)}, {one.expires_at[:10]}"
        yield Note(f"{kind}-{state}", text, one.expires_at)


def _needed(place: Place, one: Promise) -> bool:
    """Say whether a word still decides something: a waiver for what comes next, others until the promotion."""
    if one.kind == "waive":
        return True
    newest, current = place.facts.newest.get(place.model_id), place.current
    waits = newest is not None and newest.seq == one.verdict_seq
    return one.kind in _NOUNS and waits and (current is None or current.verdict_seq < one.verdict_seq)


def _acceptance(place: Place, word: ProfileWord) -> Iterator[Note]:
    judged, rules = place.judged, place.facts.rules
    if judged is None:
        return
    if word.verdict and word.verdict not in {"accepted", judged.verdict}:
        optional = "" if word.required else ", which is optional"
        yield Note("profile", f"{word.verdict} under {word.profile}{optional}")
    if rules is not None and judged.policy_digest != rules.policy_digest:
        now = policy_words(rules.policy, rules.policy_digest)
        text = f"{judged.verdict} under policy {policy_words(judged.policy, judged.policy_digest)}; now {now}"
        yield Note("policy-changed", text)


def policy_words(name: str, digest: str) -> str:
    """Return which policy is meant: its name and the beginning of its digest."""
    return f"{name} {digest[:12]}".strip() or "unknown"


def span(seconds: float) -> str:
    """Return a time from now in words: ``in 5 days``, ``2 days ago``, ``in 3 hours``."""
    size = abs(seconds)
    count, unit = (int(size // DAY), "day") if size >= DAY else (int(size // 3600), "hour")
    many = f"{count} {unit}{'' if count == 1 else 's'}"
    if not count:
        return "just now" if seconds <= 0 else "within the hour"
    return f"{many} ago" if seconds <= 0 else f"in {many}"
