"""What would be refused: the newest verdict of each model, where that one was made in observe mode. Pure.

A model that has been judged outside observe mode since is not here: its newest verdict decided.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from acceptd.judge.codes import CODES
from acceptd.record.entry import Entry

VERDICTS: Final = ("accepted", "rejected", "held", "inconclusive")
_DECIDES: Final = {"rejected": "reject", "held": "hold"}
_TAIL: Final = re.compile(r"-[0-9a-f]{8}(\.(zip|tar|tar\.gz))?$", re.ASCII)
"""What ``acceptd submit`` puts behind a drop's name, so that each drop has one of its own."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest verdict of one model, made in observe mode. Texts are as the ledger has them."""

    name: str
    """The model id; ``<team>/<drop>`` where no manifest was read."""
    team: str
    version: str
    verdict: str
    reason: str
    judged_at: str
    submission: str
    policy: str
    policy_digest: str
    decisive: tuple[tuple[str, str, str], ...]
    """(code, severity, message) of what decided against it, each code once."""

    @property
    def codes(self) -> tuple[str, ...]:
        """What decided against it."""
        return tuple(code for code, _, _ in self.decisive)

    def json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        told = asdict(self)
        del told["decisive"]
        return told | {"codes": list(self.codes)}


@dataclass(frozen=True, slots=True)
class Refusal:
    """One finding code with every model that it would refuse or hold."""

    code: str
    severity: str
    models: tuple[Seen, ...]

    @property
    def teams(self) -> tuple[str, ...]:
        """Whose they are."""
        return tuple(sorted({one.team for one in self.models}))

    @property
    def remedy(self) -> str:
        """How such a finding is mended."""
        return CODES[self.code].remedy if self.code in CODES else ""

    @property
    def meaning(self) -> str:
        """What the code says."""
        return CODES[self.code].meaning if self.code in CODES else ""

    def example(self) -> str:
        """Return the message of the first model."""
        return next(message for code, _, message in self.models[0].decisive if code == self.code)

    def json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "code": self.code,
            "severity": self.severity,
            "models": [one.name for one in self.models],
            "teams": list(self.teams),
            "meaning": self.meaning,
            "remedy": self.remedy,
            "example": self.example(),
        }


def newest(
    entries: Iterable[Entry], hidden: Callable[[Entry], Sequence[Mapping[str, Any]]] = lambda _entry: ()
) -> list[Seen]:
    """Return the newest verdict of each model, by name, where it was made in observe mode.

    ``entries`` are verdicts in their order; ``hidden`` gives the findings for reviewers of one of them.
    """
    last: dict[tuple[str, str, str], Entry] = {}
    for entry in entries:
        last[_key(entry.body)] = entry
    found = [_seen(key, entry, hidden) for key, entry in last.items() if entry.body.get("observed") is True]
    return sorted(found, key=lambda one: (one.name, one.team))


def _key(body: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return (team, model id, drop): who says that a bundle is another team's model replaces none of theirs."""
    team, model = str(body.get("team")), body.get("model")
    if isinstance(model, str):
        return team, model, ""
    return team, "", _TAIL.sub("", str(body.get("drop")))


def _seen(key: tuple[str, str, str], entry: Entry, hidden: Callable[[Entry], Sequence[Mapping[str, Any]]]) -> Seen:
    body, (team, model, drop) = entry.body, key
    verdict = str(body.get("verdict"))
    return Seen(
        name=model or f"{team}/{drop}",
        team=team,
        version=str(body.get("version") or ""),
        verdict=verdict,
        reason=str(body.get("reason")),
        judged_at=str(body.get("judged_at")),
        submission=str(entry.submission),
        policy=str(body.get("policy")),
        policy_digest=str(body.get("policy_digest")),
        decisive=decisive(verdict, [*body.get("findings", ()), *hidden(entry)], str(body.get("reason"))),
    )


def decisive(verdict: str, findings: Sequence[Mapping[str, Any]], reason: str) -> tuple[tuple[str, str, str], ...]:
    """Return (code, severity, message) of the findings that decided against acceptance, each code once."""
    if verdict == "accepted":
        return ()
    severity = _DECIDES.get(verdict)
    chosen = [one for one in findings if one.get("severity") == severity]
    if severity is None:  # inconclusive: what the reason names
        chosen = [one for one in findings if str(one.get("code")) in reason or str(one.get("message")) in reason]
    first: dict[str, tuple[str, str, str]] = {}
    for one in chosen:
        code = str(one.get("code"))
        first.setdefault(code, (code, str(one.get("severity")), str(one.get("message"))))
    return tuple(first.values())


def refusals(seen: Sequence[Seen]) -> list[Refusal]:
    """Return what would refuse or hold models, by finding code, the one of most models first."""
    by: dict[tuple[str, str], list[Seen]] = {}
    for one in seen:
        if one.verdict != "inconclusive":
            for code, severity, _ in one.decisive:
                by.setdefault((code, severity), []).append(one)
    found = [Refusal(code, severity, tuple(models)) for (code, severity), models in by.items()]
    return sorted(found, key=lambda one: (-len(one.models), one.severity != "reject", one.code))


def counts(seen: Sequence[Seen]) -> dict[str, int]:
    """Return how many models each verdict has; all verdicts are there."""
    found = Counter(one.verdict for one in seen)
    return {verdict: found[verdict] for verdict in VERDICTS}


def summary(seen: Sequence[Seen]) -> str:
    """Return one line: how many models would come to what."""
    if not seen:
        return "nothing was observed, or everything observed was judged outside observe mode since"
    words = {"inconclusive": "not judged"}
    teams = len({one.team for one in seen})
    parts = [f"{count} {words.get(name, name)}" for name, count in counts(seen).items() if count]
    return (
        f"{len(seen)} model{'s' if len(seen) > 1 else ''} of {teams} team{'s' if teams > 1 else ''} observed; "
        f"by their newest verdict: {', '.join(parts)}"
    )
