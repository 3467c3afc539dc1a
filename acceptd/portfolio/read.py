"""Reads what a portfolio shows out of a ledger, a policies directory and the reviewers' file.

Bounded queries: two verdicts of each model, those that releases rest on, what people decided, one contract of each
model. No walk over the entries: their number hardly matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, func, select

from acceptd.contracts.force import in_force
from acceptd.errors import AcceptdError, ConfigError, LedgerError, LoaderError
from acceptd.policy.load import load_reviewers
from acceptd.policy.reviewers import Reviewers
from acceptd.portfolio.facts import Agreement, Facts, InForce, Judged, ProfileWord, Promise
from acceptd.portfolio.rows import Portfolio, assemble
from acceptd.record.dialects import InEntryOrder
from acceptd.record.entry import Entry, decode, utc_now
from acceptd.record.log import Ledger
from acceptd.record.tables import entries, verdicts
from acceptd.release.book import read_book
from acceptd.review import decision as decisions
from acceptd.rules import Rules, load_rules

WITHIN: Final = 30 * 86_400
"""Seconds before its end that something counts as about to expire, where nobody says otherwise."""
_PAGE: Final = 500


def read_portfolio(
    ledger: Ledger,
    directory: Path,
    policy: str,
    *,
    within_seconds: int = WITHIN,
    team: str = "",
    at: str = "",
) -> Portfolio:
    """Return the portfolio of a ledger under the ``policy`` in ``directory``, of one team or of all.

    Rules, reviewers or a contract that are refused are troubles and notes of it, and keep nothing else from being
    shown. ``at`` is UTC, RFC 3339; empty: now. Raises LedgerError for a ledger that cannot be read.
    """
    return assemble(
        read_facts(ledger, directory, policy), at=at or utc_now(), within_seconds=within_seconds, team=team
    )


def read_facts(ledger: Ledger, directory: Path, policy: str) -> Facts:
    """Return everything that a portfolio is assembled from."""
    troubles: list[str] = []
    rules = _rules(directory, policy, troubles)
    book = read_book(ledger)
    resting = {
        row.verdict_seq
        for place in book.channels
        if (row := book.current(*place)) is not None and row.verdict_seq > 0
    }
    with ledger.reading() as connection:
        models = _models(connection)
        newest = _newest(connection, models)
        accepted = _newest(connection, models, "accepted")
        read = dict(_judged(connection, {*resting, *newest.values(), *accepted.values()}))
    known = {*models, *(model for model, _ in book.channels)}
    return Facts(
        book=book,
        newest=_by_model(newest, read),
        accepted=_by_model(accepted, read),
        resting={seq: read[seq] for seq in resting if seq in read},
        promises=tuple(_promises(ledger, _reviewers(directory, troubles))),
        contracts=_contracts(ledger, rules, sorted(known)) if rules is not None else {},
        rules=_in_force(rules) if rules is not None else None,
        troubles=tuple(troubles),
    )


def _rules(directory: Path, policy: str, troubles: list[str]) -> Rules | None:
    try:
        return load_rules(directory, policy)
    except ConfigError as error:
        troubles.append(f"the policy is refused, contracts are not shown: {error.message}")
        return None


def _reviewers(directory: Path, troubles: list[str]) -> Reviewers | None:
    try:
        return load_reviewers(directory)
    except ConfigError as error:
        troubles.append(f"the reviewers are refused, no approval or waiver is shown: {error.message}")
        return None


def _in_force(rules: Rules) -> InForce:
    policy = rules.policy
    automatic = frozenset(one.name for one in policy.all_channels() if one.automatic and not one.after_channel)
    if policy.approvals.attestations:
        automatic = frozenset()
    return InForce(policy.name, rules.policy_digest, policy.release.channel, automatic)


def _models(connection: Connection) -> list[str]:
    """Return every model that was judged, by a step of the index for each of them and not for each verdict."""
    column = verdicts.c.model
    step = select(func.min(column).label("model")).cte("models", recursive=True)
    following = select(func.min(column)).where(column > step.c.model).scalar_subquery()
    step = step.union_all(select(following).where(step.c.model.is_not(None)))
    return [str(row.model) for row in connection.execute(select(step.c.model)) if row.model is not None]


def _newest(connection: Connection, models: Sequence[str], word: str = "") -> dict[str, int]:
    """Return the entry of each model's newest verdict, or of the newest that says ``word``."""
    query = select(verdicts.c.seq)
    query = query.order_by(InEntryOrder().desc()).limit(1)
    if word:
        query = query.where(verdicts.c.verdict == word)
    found = {}
    for model in models:
        seq = connection.execute(query.where(verdicts.c.model == model)).scalar()
        if seq is not None:
            found[model] = int(seq)
    return found


def _judged(connection: Connection, seqs: Iterable[int]) -> Iterator[tuple[int, Judged]]:
    """Yield verdicts by their entries' numbers; what is no readable verdict is left out."""
    for entry in _entries(connection, seqs):
        if entry.type == "verdict":
            yield entry.seq, judged_of(entry)


def _entries(connection: Connection, seqs: Iterable[int]) -> Iterator[Entry]:
    columns = entries.c
    wanted = sorted(seqs)
    for start in range(0, len(wanted), _PAGE):
        page = wanted[start : start + _PAGE]
        query = select(columns.leaf, columns.leaf_hash).where(columns.seq.in_(page)).order_by(columns.seq)
        for row in connection.execute(query):
            yield decode(row.leaf, row.leaf_hash)


def judged_of(entry: Entry) -> Judged:
    """Return a verdict's entry as the portfolio shows it."""
    body = entry.body
    return Judged(
        seq=entry.seq,
        submission=str(entry.submission),
        verdict=_text(body, "verdict"),
        reason=_text(body, "reason"),
        judged_at=_text(body, "judged_at"),
        bundle_digest=_text(body, "bundle_digest"),
        version=_text(body, "version"),
        policy=_text(body, "policy"),
        policy_digest=_text(body, "policy_digest"),
        contract_digest=_text(body, "contract_digest"),
        profiles=tuple(_words(body)),
        observed=body.get("observed") is True,
    )


def _words(body: Mapping[str, Any]) -> Iterator[ProfileWord]:
    told = body.get("profiles")
    rows = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    for one in rows:
        yield ProfileWord(_text(one, "profile"), _text(one, "verdict"), one.get("required") is not False)
    if not rows and body.get("profile"):  # an earlier version knew one
        yield ProfileWord(_text(body, "profile"), _text(body, "verdict"))


def _by_model(seqs: Mapping[str, int], read: Mapping[int, Judged]) -> dict[str, Judged]:
    return {model: read[seq] for model, seq in seqs.items() if seq in read}


def _promises(ledger: Ledger, reviewers: Reviewers | None) -> Iterator[Promise]:
    """Yield the decisions on record that verify and speak of the verdict that they are entered for."""
    if reviewers is None:
        return
    found = []
    for entry in ledger.entries(kind="decision"):
        with suppress(LoaderError):
            said, reviewer = decisions.opened(entry.body.get("envelope"), reviewers)
            if not reviewer.left or said.decision == "reject":
                found.append((entry, said, reviewer))
    with ledger.reading() as connection:
        about = {one.seq: one for one in _entries(connection, {said.verdict_seq for _, said, _ in found})}
    for entry, said, reviewer in found:
        verdict = about.get(said.verdict_seq)
        if verdict is None or any(decisions.differences(said, verdict, ledger.origin)):
            continue
        if reviewer.team == verdict.body.get("team"):  # nobody decides about their own team's bundle
            continue
        yield Promise(
            kind=said.decision,
            model_id=_text(verdict.body, "model"),
            channel=said.channel,
            reviewer=reviewer.name,
            codes=tuple(said.codes or said.attestations),
            expires_at=said.expires_at,
            submission=said.submission,
            verdict_seq=said.verdict_seq,
            entry=entry.seq,
        )


def _contracts(ledger: Ledger, rules: Rules, models: Iterable[str]) -> dict[str, Agreement]:
    found = {}
    for model in models:
        try:
            agreed = in_force(rules, model, ledger)
        except (ConfigError, LedgerError) as error:
            found[model] = Agreement("refused", reason=_told(error))
            continue
        standing, contract = agreed.standing, agreed.contract
        if standing is not None:
            found[model] = Agreement(
                status=standing.status,
                version=contract.version if contract is not None else 0,
                digest=agreed.digest,
                valid_until=(contract.valid_until or "") if contract is not None else "",
                entry=standing.entry,
                reason=standing.reason,
            )
    return found


def _told(error: AcceptdError) -> str:
    return error.message if isinstance(error, ConfigError) else str(error)


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""
