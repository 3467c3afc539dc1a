"""``acceptd ledger``: verify, show and export the record."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from acceptd.advisories import register as advisories
from acceptd.canary import audit as canary_audit
from acceptd.cli.common import (
    EXIT_AUDIT,
    JsonOption,
    StateOption,
    chosen_state,
    console,
    counted,
    progress_console,
    read_limited,
)
from acceptd.cli.ledger_move import move
from acceptd.cli.ledger_roles import roles
from acceptd.cli.times import moment
from acceptd.config import load_settings, policies_directory, require_state
from acceptd.contracts.register import Register
from acceptd.daemon_lock import acquire
from acceptd.errors import AnchorError, ConfigError, LedgerError, StateError, UsageError
from acceptd.objectstore.settings import ObjectsTable
from acceptd.policy.load import load_reviewers
from acceptd.policy.names import valid_model_id, valid_name
from acceptd.policy.policy import Policy
from acceptd.record import anchor as anchors
from acceptd.record import audit, checkpoint
from acceptd.record import export as exports
from acceptd.record import migrate as migrations
from acceptd.record.entry import VERDICTS, Filter
from acceptd.record.keys import Keyring, load_keyring
from acceptd.record.keystore import history, own_history
from acceptd.record.log import Ledger
from acceptd.record.proven import prove
from acceptd.record.tables import SCHEMA_VERSION
from acceptd.release import audit as release_audit
from acceptd.release import rules_audit
from acceptd.release.signers import Auditor
from acceptd.report.escape import line
from acceptd.report.targets import Targets
from acceptd.retention import audit as retention_audit
from acceptd.retention.service import objects_of
from acceptd.review import revocation
from acceptd.review.desk import Desk

app = typer.Typer(help="The record of every verdict, release and revocation.", no_args_is_help=True)
_CODE: Final = re.compile(r"[a-z][a-z0-9-]*/[a-z0-9-]+", re.ASCII)
_KIND: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
app.command("roles")(roles)
app.command("move")(move)
ENTRY = "The entry's number, or a submission: then that of its verdict."


@app.command("verify")
def verify(
    checkpoints: Annotated[
        list[Path] | None,
        typer.Option(
            "--checkpoint", help="A signed checkpoint that you kept: the log must extend it (repeatable)."
        ),
    ] = None,
    keyring: Annotated[
        Path | None, typer.Option("--keyring", help="Your own copy of keyring.json; the state's own says less.")
    ] = None,
    objects: Annotated[
        bool, typer.Option("--objects/--no-objects", help="Hash the bytes of every stored bundle.")
    ] = True,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Recompute every leaf, root, projection, signature, pointer and stored byte; say what differs and where.

    The checkpoint that `checkpoint.anchor` keeps is compared too. Exit 5 if anything differs.
    """
    paths = require_state(chosen_state(state))
    keys = Keyring.load(keyring) if keyring is not None else None
    kept = [
        audit.Kept(str(path), read_limited(path, anchors.MAX_NOTE, "a signed checkpoint"))
        for path in checkpoints or ()
    ]
    with progress_console().status("verifying the ledger") as status:
        kept, unreachable = _from_anchor(paths.state, kept)
        found = audit.examine(
            paths.state, keys, kept, told=lambda text: status.update(f"verifying the ledger: {text}")
        )
        differences = [*unreachable, *found.differences]
        differences += _releases(
            paths.state, keys, objects=objects, told=lambda text: status.update(f"verifying {text}")
        )
    head = found.head
    if json_:
        rows = [{"what": one.what, "where": one.where, "message": one.message} for one in differences]
        body = {"entries": head.size, "root": head.root.hex(), "checkpoints": [one.place for one in kept]}
        typer.echo(json.dumps(body | {"differences": rows}))
    else:
        out = console()
        for one in differences:
            out.print(line(f"differs: {one.what} {one.where}: {one.message}"), markup=False)
        word = counted(len(differences), "difference") if differences else "verified"
        out.print(
            f"ledger: {counted(head.size, 'entry', 'entries')}, root {head.root.hex()[:16]}…, {word}", markup=False
        )
        if not kept:
            text = "no checkpoint from outside was compared: a cut log or a restored backup would not show"
            typer.echo(text, err=True)
    raise typer.Exit(EXIT_AUDIT if differences else 0)


def _from_anchor(state: Path, kept: list[audit.Kept]) -> tuple[list[audit.Kept], list[audit.Difference]]:
    """Add what the configured anchor keeps; an anchor that cannot be asked is a difference."""
    anchor = anchors.open_anchor(load_settings(state).checkpoint.anchor, state)
    if anchor is None:
        return kept, []
    try:
        with Ledger.open(state, create=False, damaged=True) as ledger:
            note = anchor.last(ledger.origin)
            if note is None:
                _unheard_of(state, anchor, ledger)
    except (AnchorError, _ExchangedError) as error:
        return kept, [audit.Difference("anchor", anchor.words, str(error))]
    except (LedgerError, StateError):
        return kept, []  # the audit itself says what is wrong with the database
    return ([*kept, audit.Kept(anchor.words, note)] if note is not None else kept), []


class _ExchangedError(Exception):
    """The anchor keeps notes of this instance, and none of its log."""


def _unheard_of(state: Path, anchor: anchors.Anchor, ledger: Ledger) -> None:
    try:
        checkpoint.exported(anchor, own_history(state, ledger), ledger.origin)
    except LedgerError as error:
        raise _ExchangedError(str(error)) from error


def _releases(
    state: Path, keyring: Keyring | None, *, objects: bool, told: Callable[[str], None]
) -> list[audit.Difference]:
    try:
        anchored = keyring or load_keyring(state)
        settings = load_settings(state)
        directory = policies_directory(settings)
        with Ledger.open(state, create=False, damaged=True) as ledger:
            keys = Auditor.of(history(ledger, anchored))
            found = release_audit.examine(state, ledger, keys, objects=objects, progress=told)
            desk = Desk(state, ledger, Policy(), load_reviewers(directory))
            contracts = Register(ledger, desk.reviewers).examine()
            found += rules_audit.examine(ledger)
            elsewhere = _elsewhere(state, settings.objects, asked=objects)
            beside = [*retention_audit.examine(state, ledger, elsewhere), *canary_audit.examine(ledger)]
            beside += advisories.examine(ledger, desk.reviewers)
            beside += revocation.examine(ledger, desk.reviewers)
            return [*found, *desk.examine(), *contracts, *beside]
    except (LedgerError, StateError, ConfigError) as error:
        return [audit.Difference("release", "releases", f"cannot be compared: {error}")]


def _elsewhere(state: Path, table: ObjectsTable, *, asked: bool) -> Callable[[str], bool] | None:
    """Return what says whether the object store of a fleet has a bundle; where it is not asked, it has each."""
    place = objects_of(table, state)
    if place is None or not asked:
        return None if place is None else lambda _digest: True
    return lambda digest: place.has("sealed", digest) or place.has("approved", digest)


def _number(ledger: Ledger, wanted: str) -> int:
    """Return the number of an entry that is named by it, or by the submission whose verdict it is."""
    last = ledger.tree().size - 1
    if wanted.isascii() and wanted.isdecimal() and len(wanted) < 16:
        if int(wanted) > last:
            raise UsageError(f"there is no entry {wanted}", remedy=f"the last one is {last}")
        return int(wanted)
    for found in ledger.entries(kind="verdict", submission=wanted):
        return found.seq
    raise UsageError(
        f"there is no entry {wanted!r:.80}", remedy=f"give a number up to {last}, or a submission with a verdict"
    )


@app.command("proof")
def proof(
    entry: Annotated[str, typer.Argument(help=ENTRY)],
    state: StateOption = None,
) -> None:
    """Print, as JSON, the proof that an entry is in the log, under the newest signed checkpoint that covers it."""
    paths = require_state(chosen_state(state))
    with Ledger.open(paths.state, create=False) as ledger:
        seq = _number(ledger, entry)
        found = prove(paths.state, ledger, seq)
    typer.echo(json.dumps(found.as_json(), indent=2))


@app.command("rebuild")
def rebuild(state: StateOption = None) -> None:
    """Make the projections anew from the entries, in one transaction; entries and evidence stay as they are."""
    paths = require_state(chosen_state(state))
    with Ledger.open(paths.state, create=False) as ledger:
        ledger.rebuild()
        size = ledger.tree().size
    console().print(f"ledger: projections made anew from {counted(size, 'entry', 'entries')}", markup=False)


@app.command("migrate")
def migrate(state: StateOption = None) -> None:
    """Bring an older database to this version's schema, after a backup. `acceptd daemon` does it at its start.

    Entries, tree and evidence stay as they are, byte for byte; else nothing is changed. On PostgreSQL it is one
    transaction of the tables' owner, and the backup is yours to make.
    """
    paths = require_state(chosen_state(state))
    descriptor = acquire(paths.lock)
    try:
        with progress_console().status("migrating the ledger"):
            done = migrations.migrate(paths.state)
    finally:
        os.close(descriptor)
    if done is None:
        text = f"ledger: at schema version {SCHEMA_VERSION}, which is this acceptd's"
    else:
        kept = f"; as it was, it lies in {done.backup}" if done.backup else ""
        text = f"ledger: schema version {done.before} is now {done.after}{kept}"
    console().print(text, markup=False, soft_wrap=True)


@app.command("show")
def show(entry: Annotated[str, typer.Argument(help=ENTRY)], state: StateOption = None) -> None:
    """Print one entry as JSON."""
    paths = require_state(chosen_state(state))
    with Ledger.open(paths.state, create=False) as ledger:
        seq = _number(ledger, entry)
        typer.echo(json.dumps(ledger.entry(seq).as_json(), ensure_ascii=True, indent=2, sort_keys=True))


@app.command("export")
def export(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here, not to standard output.")
    ] = None,
    team: Annotated[str, typer.Option("--team", help="Only this team's.")] = "",
    model: Annotated[str, typer.Option("--model", help="Only this model's: team/name.")] = "",
    verdict: Annotated[str, typer.Option("--verdict", help="Only verdicts of this word.")] = "",
    code: Annotated[str, typer.Option("--code", help="Only verdicts with a finding of this code.")] = "",
    kind: Annotated[str, typer.Option("--type", help="An entry type, for example verdict.")] = "",
    since: Annotated[str, typer.Option("--since", help="From then on: 30d, 12h, or 2026-11-29T15:17:00Z.")] = "",
    until: Annotated[str, typer.Option("--until", help="Before then: as --since.")] = "",
    reviewer: Annotated[
        bool, typer.Option("--reviewer", help="With the findings that are for reviewers.")
    ] = False,
    state: StateOption = None,
) -> None:
    """Export entries as JSON lines, each with its number and leaf hash: `acceptd ledger proof` proves it by those.

    Of a verdict they hold what its team may see; with --reviewer the other findings too, beside the body.
    """
    paths = require_state(chosen_state(state))
    wanted = _wanted(team, model, verdict, code, kind, since, until)
    with Ledger.open(paths.state, create=False) as ledger, Targets({"--output": output}) as targets:
        for text in exports.lines(ledger, wanted, reviewers=reviewer):
            if output is None:
                typer.echo(text)
            else:
                targets.write("--output", text.encode("ascii") + b"\n")


def _wanted(team: str, model: str, verdict: str, code: str, kind: str, since: str, until: str) -> Filter:
    """Return the filter that the options make; raise UsageError for a value that nothing can have."""
    if verdict and verdict not in VERDICTS:
        raise UsageError(
            f"--verdict {verdict!r:.60} is no verdict", remedy=f"give one of {', '.join(sorted(VERDICTS))}"
        )
    if code and not _CODE.fullmatch(code):
        raise UsageError(
            f"--code {code!r:.60} is no finding code", remedy="acceptd policy explain --all lists them"
        )
    if kind and not _KIND.fullmatch(kind):
        raise UsageError(f"--type {kind!r:.60} is no type of an entry", remedy="for example verdict, or revoked")
    if kind not in {"", "verdict"} and (verdict or code):
        raise UsageError(
            f"--type {kind} has no verdict and no findings", remedy="leave --type out, or --verdict and --code"
        )
    for option, text, valid in (("--team", team, valid_name), ("--model", model, valid_model_id)):
        try:
            if text:
                valid(text)
        except ValueError as error:
            raise UsageError(
                f"{option}: {error}", remedy="give a name as the inbox and manifests have it"
            ) from error
    return Filter(
        team=team or None,
        model=model or None,
        verdict=verdict or None,
        code=code or None,
        type=kind or None,
        since=moment(since) if since else None,
        until=moment(until, option="--until") if until else None,
    )
