"""``acceptd release``: what is in production, and how to move it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from acceptd.cli.common import JsonOption, StateOption, chosen_state, console
from acceptd.cli.release_canary import app as canary
from acceptd.cli.release_export import export
from acceptd.cli.release_sign import sign
from acceptd.cli.sealing import sealing
from acceptd.cli.tables import print_table
from acceptd.config import Paths, load_settings, policies_directory, require_state
from acceptd.errors import UsageError
from acceptd.policy.load import load_reviewers
from acceptd.policy.names import valid_model_id, valid_name
from acceptd.policy.policy import Policy
from acceptd.policy.reviewers import Reviewers
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.release import history as histories
from acceptd.release import promote as promotion
from acceptd.release import revoke as revocation
from acceptd.release.book import read_book
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys
from acceptd.report.escape import line
from acceptd.review.desk import Desk
from acceptd.rules import load_rules

SHA256_DIGITS = 64
SHORTEST_PREFIX = 8
app = typer.Typer(help="Releases: list, promote, roll back, revoke, sign.", no_args_is_help=True)
app.command("sign")(sign)
app.add_typer(canary, name="canary")
app.command("export")(export)
ModelArgument = Annotated[str, typer.Argument(help="A model id: team/name.")]
ChannelOption = Annotated[str, typer.Option("--channel", help="The channel.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; it goes into the ledger.")]


@dataclass(frozen=True, slots=True)
class _Desk:
    paths: Paths
    ledger: Ledger
    keys: ReleaseKeys
    terms: Terms
    policy: Policy
    reviewers: Reviewers


@contextmanager
def _desk(state: StateOption) -> Iterator[_Desk]:
    paths = require_state(chosen_state(state))
    settings = load_settings(paths.state)
    directory = policies_directory(settings)
    rules = load_rules(directory, settings.policy)
    with sealing(paths.state) as ledger:
        terms = Terms(valid_seconds=rules.policy.release.channel_valid_seconds)
        keys = ReleaseKeys.load(paths.state, ledger)
        yield _Desk(paths, ledger, keys, terms, rules.policy, load_reviewers(directory))


def _names(model: str, channel: str) -> None:
    try:
        valid_model_id(model)
        valid_name(channel)
    except ValueError as error:
        raise UsageError(str(error), remedy="write it as team/name") from error


@app.command("list")
def list_(state: StateOption = None, json_: JsonOption = False) -> None:
    """Print the current release of every model and channel."""
    with _desk(state) as desk:
        rows = histories.current_releases(desk.paths.state, desk.ledger, desk.keys)
    if json_:
        typer.echo(json.dumps([_plain(row) for row in rows], sort_keys=True))
        return
    lines: list[list[Any]] = []
    for row in rows:
        facts = _plain(row)
        digest = str(facts.get("bundle_digest", ""))[:12]
        cells = [facts.get(name) for name in ("model_id", "channel", "number", "version")]
        lines.append([*cells, digest, ", ".join(row.profiles), facts.get("expires_at"), facts.get("problem")])
    columns = ("model", "channel", "number", "version", "digest", "profiles", "expires", "problem")
    print_table(console(), columns, lines, empty="nothing is released yet")


@app.command("history")
def history(
    model: ModelArgument,
    channel: ChannelOption = "production",
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print every release of one channel, newest first."""
    _names(model, channel)
    with _desk(state) as desk:
        rows = histories.history(desk.paths.state, desk.ledger, desk.keys, model, channel)
    if json_:
        typer.echo(json.dumps([_plain(row) for row in rows], sort_keys=True))
        return
    lines: list[list[Any]] = []
    for row in rows:
        facts = _plain(row)
        digest = str(facts.get("bundle_digest") or facts.get("digest") or "")[:12]
        cells = [facts.get(name) for name in ("number", "state", "kind", "version")]
        at = facts.get("activated_at") or facts.get("at")
        lines.append([*cells, digest, ", ".join(row.profiles), at, facts.get("reason")])
    columns = ("number", "state", "kind", "version", "digest", "profiles", "at", "reason")
    print_table(console(), columns, lines, empty=f"{model} has no release on {channel} yet")


@app.command("promote")
def promote(
    model: ModelArgument,
    digest: Annotated[
        str, typer.Option("--digest", help="The bundle digest, or its beginning (8 digits or more).")
    ],
    channel: ChannelOption = "production",
    reason: ReasonOption = "promoted by hand",
    state: StateOption = None,
) -> None:
    """Make an accepted bundle current."""
    _names(model, channel)
    with _desk(state) as desk:
        row = _accepted(desk, model, digest)
        made = promotion.promote(
            desk.paths.state,
            desk.ledger,
            desk.keys,
            model_id=model,
            channel=channel,
            digest=str(row["digest"]),
            manifest_json=row["manifest"],
            verdict_seq=int(row["seq"]),
            options=row["options"],
            profiles=row["profiles"],
            reason=reason,
            decide=Desk(desk.paths.state, desk.ledger, desk.policy, desk.reviewers).decided(channel),
            terms=desk.terms,
        )
    word = "is now" if made.new else "was already"
    console().print(f"{model} {channel} {word} {made.number} ({made.bundle_digest[:12]})", markup=False)


def _accepted(desk: _Desk, model: str, digest: str) -> dict[str, Any]:
    if len(digest) < SHORTEST_PREFIX:
        raise UsageError(f"{digest!r} is too short to name a digest", remedy="give 8 digits or more")
    found: dict[str, dict[str, Any]] = {}
    for row in Queue(desk.ledger).find():
        if (
            row.model == model
            and (row.bundle_digest or "").startswith(digest)
            and row.data.get("verdict") == "accepted"
        ):
            if row.data.get("document", {}).get("inferred"):
                continue
            entry = next(desk.ledger.entries(kind="verdict", submission=row.id))
            facts = {"digest": row.bundle_digest, "profiles": row.data.get("profiles", [])}
            facts |= {key: row.data[key] for key in ("manifest", "options")}
            found[str(row.bundle_digest)] = facts | {"seq": entry.seq}
    if len(found) != 1:
        raise UsageError(
            f"{len(found)} accepted bundles of {model} begin with {digest}",
            remedy="see `acceptd status`; a bundle with an inferred manifest needs a bundle.toml first",
        )
    return next(iter(found.values()))


@app.command("rollback")
def rollback(
    model: ModelArgument,
    digest: Annotated[str, typer.Option("--to", help="The bundle digest; default: the prior release's.")] = "",
    channel: ChannelOption = "production",
    reason: ReasonOption = "rolled back by hand",
    state: StateOption = None,
) -> None:
    """Make an older approved bundle current again, under a new and higher number."""
    _names(model, channel)
    with _desk(state) as desk:
        made = promotion.rollback(
            desk.paths.state,
            desk.ledger,
            desk.keys,
            model_id=model,
            channel=channel,
            digest=digest or None,
            reason=reason,
            rejected=Desk(desk.paths.state, desk.ledger, desk.policy, desk.reviewers).rejected(channel),
            terms=desk.terms,
        )
    console().print(f"{model} {channel} is now {made.number} ({made.bundle_digest[:12]})", markup=False)


def _released(desk: _Desk, digest: str) -> str:
    """Return the whole digest that ``digest`` begins; a whole one may be of a bundle that was never released."""
    if len(digest) == SHA256_DIGITS:
        return digest
    book = read_book(desk.ledger)
    rows = [row for place in list(book.channels) for row in book.rows(*place)]
    found = {row.digest for row in rows if row.digest.startswith(digest)}
    if len(digest) < SHORTEST_PREFIX or len(found) != 1:
        short = len(digest) < SHORTEST_PREFIX
        raise UsageError(
            f"{digest!r} is shorter than {SHORTEST_PREFIX} digits of a bundle digest"
            if short
            else f"{len(found)} releases have a bundle digest that begins with {digest!r}",
            remedy="give the whole digest: `acceptd report` and `release history --json` show it",
        )
    return found.pop()


@app.command("revoke")
def revoke(
    digest: Annotated[
        str, typer.Argument(help="The bundle digest, or its beginning (8 digits or more) where a release has it.")
    ],
    reason: Annotated[str, typer.Option("--reason", help="Why; it goes into the ledger and the list.")],
    roll_back: Annotated[
        bool, typer.Option("--rollback", help="Also roll back every channel that serves it.")
    ] = False,
    state: StateOption = None,
) -> None:
    """Put a bundle on the signed revocation list: no loader opens it again."""
    with _desk(state) as desk:
        whole = _released(desk, digest)
        done = revocation.revoke(
            desk.paths.state,
            desk.ledger,
            desk.keys,
            digest=whole,
            reason=reason,
            rollback=roll_back,
            terms=desk.terms,
        )
    out = console()
    out.print(f"revoked {whole[:12]}: the list is number {done.number} now", markup=False)
    for made in done.rollbacks:
        name = f"{made.model_id} {made.channel}"
        out.print(f"  {name} is now {made.number} ({made.bundle_digest[:12]})", markup=False)
    for model, channel in done.stranded:
        text = f"  {model} {channel} still names it: loaders refuse until another release is promoted"
        out.print(text, markup=False)
    for problem in done.problems:
        out.print(f"  problem: {line(problem)}", markup=False)


def _plain(row: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        name: str(value) if not isinstance(value, int | str | bool | tuple | None) else value
        for name, value in asdict(row).items()
    }
