"""``acceptd release``: what is in production, and how to move it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from acceptd.cli.common import StateOption, console
from acceptd.cli.release_canary import app as canary
from acceptd.cli.release_diff import diff
from acceptd.cli.release_export import export
from acceptd.cli.release_history import history, list_
from acceptd.cli.release_holds import freeze, pin, unfreeze, unpin
from acceptd.cli.release_office import (
    SHA256_DIGITS,
    SHORTEST_PREFIX,
    ChannelOption,
    ModelArgument,
    Office,
    ReasonOption,
    model_of,
    office,
    whole_digest,
)
from acceptd.cli.release_sign import sign
from acceptd.cli.release_words import print_revoked
from acceptd.errors import UsageError
from acceptd.record.queue import Queue
from acceptd.release import promote as promotion
from acceptd.release import revoke as revocation
from acceptd.release.book import read_book
from acceptd.release.which import release_of
from acceptd.release.who import operator

app = typer.Typer(
    help="Releases: list, promote, roll back, pin, freeze, revoke, compare, sign.", no_args_is_help=True
)
app.command("list")(list_)
app.command("history")(history)
app.command("diff")(diff)


@app.command("promote")
def promote(
    model: ModelArgument,
    digest: Annotated[
        str, typer.Option("--digest", help="The bundle digest, or its beginning (8 digits or more).")
    ],
    channel: ChannelOption = None,
    reason: ReasonOption = "promoted by hand",
    state: StateOption = None,
) -> None:
    """Make an accepted bundle current."""
    model = model_of(model)
    with office(state) as place:
        name = place.channel(channel)
        row = _accepted(place, model, digest)
        made = promotion.promote(
            place.paths.state,
            place.ledger,
            place.keys,
            model_id=model,
            channel=name,
            digest=str(row["digest"]),
            manifest_json=row["manifest"],
            verdict_seq=int(row["seq"]),
            options=row["options"],
            profiles=row["profiles"],
            reason=reason,
            decide=place.desk.decided(name),
            rule=place.policy.channel(name),
            by=operator(),
            terms=place.terms,
        )
    word = "is now" if made.new else "was already"
    console().print(f"{model} {name} {word} {made.number} ({made.bundle_digest[:12]})", markup=False)


def _accepted(place: Office, model: str, digest: str) -> dict[str, Any]:
    if len(digest) < SHORTEST_PREFIX:
        raise UsageError(f"{digest!r} is too short to name a digest", remedy="give 8 digits or more")
    found: dict[str, dict[str, Any]] = {}
    for row in Queue(place.ledger).find():
        if (
            row.model == model
            and (row.bundle_digest or "").startswith(digest)
            and row.data.get("verdict") == "accepted"
        ):
            if row.data.get("document", {}).get("inferred"):
                continue
            if row.data.get("observed") and str(row.bundle_digest) in found:
                continue  # what was only observed takes nothing from what was accepted before it
            entry = next(place.ledger.entries(kind="verdict", submission=row.id))
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
    digest: Annotated[
        str, typer.Option("--to", help="A number, or a bundle digest or its beginning; without: the prior.")
    ] = "",
    channel: ChannelOption = None,
    reason: ReasonOption = "rolled back by hand",
    state: StateOption = None,
) -> None:
    """Make an older approved bundle current again, under a new and higher number."""
    model = model_of(model)
    with office(state) as place:
        name = place.channel(channel, released=True)
        left = read_book(place.ledger).rolled_back_from(model, name)
        made = promotion.rollback(
            place.paths.state,
            place.ledger,
            place.keys,
            model_id=model,
            channel=name,
            digest=_older(place, model, name, digest),
            reason=reason,
            rejected=place.desk.rejected(name),
            by=operator(),
            terms=place.terms,
        )
    out = console()
    out.print(f"{model} {name} is now {made.number} ({made.bundle_digest[:12]})", markup=False)
    if (
        not digest and made.bundle_digest in left
    ):  # the second rollback in a row comes back to where the first began
        out.print("  somebody rolled back from that bundle before: name an older one with --to", markup=False)


def _older(place: Office, model: str, channel: str, wanted: str) -> str | None:
    if not wanted or len(wanted) == SHA256_DIGITS:
        return wanted or None
    return release_of(read_book(place.ledger), model, channel, wanted).digest


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
    with office(state) as place:
        whole = whole_digest(place.ledger, digest)
        done = revocation.revoke(
            place.paths.state,
            place.ledger,
            place.keys,
            digest=whole,
            reason=reason,
            rollback=roll_back,
            by=operator(),
            terms=place.terms,
        )
    print_revoked(console(), whole, done)


for word in (pin, unpin, freeze, unfreeze):
    app.command(word.__name__)(word)
app.command("sign")(sign)
app.command("export")(export)
app.add_typer(canary, name="canary")
