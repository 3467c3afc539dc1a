"""``acceptd advisory``: signed lists of what is known against runtimes, and what they say of the releases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from acceptd.advisories import register
from acceptd.advisories.affected import Affected
from acceptd.advisories.affected import affected as look
from acceptd.advisories.document import MAX_BYTES, AdvisoryList, read
from acceptd.advisories.document import sign as signed
from acceptd.cli.common import (
    JsonOption,
    StateOption,
    chosen_state,
    console,
    counted,
    read_limited,
    worst,
    write_new,
)
from acceptd.cli.sealing import sealing
from acceptd.cli.tables import print_table
from acceptd.config import load_settings, policies_directory, require_state
from acceptd.errors import MalformedError, UsageError
from acceptd.policy.load import load_reviewers
from acceptd.policy.reviewers import Reviewers
from acceptd.reaccept.standing import promoted
from acceptd.record.entry import Entry, utc_now
from acceptd.record.log import Ledger
from acceptd.report.escape import line
from acceptd.review import keys as own

HELD, UNKNOWN = 3, 4
app = typer.Typer(help="Advisories about runtimes: sign, install, list, affected.", no_args_is_help=True)


@app.command("sign")
def sign(
    path: Annotated[Path, typer.Argument(help="The list: JSON, as docs/advisories.schema.json says.")],
    key: Annotated[Path, typer.Option("--key", help="Your private key as a reviewer.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the signed list goes.")],
) -> None:
    """Sign a list of advisories on your own machine; that needs no state."""
    said = read(_json(path, "a list of advisories"))
    data = json.dumps(signed(said, own.load(key))).encode("ascii") + b"\n"
    write_new(output, data)
    console().print(f"wrote {line(output)}: list {said.number}, {_counted(said)}", soft_wrap=True)


@app.command("install")
def install(
    path: Annotated[Path, typer.Argument(help="A signed list.")],
    state: StateOption = None,
) -> None:
    """Put a signed list on record: from here on new submissions are held against it."""
    envelope = _json(path, "a signed list")
    home = require_state(chosen_state(state)).state
    reviewers = load_reviewers(policies_directory(load_settings(home)))
    with sealing(home) as ledger:
        said, entered = register.install(ledger, envelope, reviewers)
    words = f"entry {entered.seq}: list {said.number} is in force until {said.expires_at}"
    console().print(f"{words}, {_counted(said)}", soft_wrap=True)


def _counted(said: AdvisoryList) -> str:
    return counted(len(said.advisories), "advisory", "advisories")


@app.command("list")
def list_(state: StateOption = None, json_: JsonOption = False) -> None:
    """Print the list in force. Exit 3: it has expired."""
    with _inside(state) as (ledger, reviewers):
        entry = register.newest(ledger)
        said = register.verified(entry, reviewers) if entry is not None else None
    stale = said is not None and said.expires_at <= utc_now()
    if json_:
        typer.echo(json.dumps(_document(entry, said, stale=stale), sort_keys=True))
    elif said is None or entry is None:
        console().print("no list was ever installed")
    else:
        out = console()
        word = "EXPIRED at" if stale else "until"
        signer = entry.body["signer"]
        out.print(f"list {said.number}, signed by {signer}, entry {entry.seq}, {word} {said.expires_at}")
        rows = [[one.id, one.versions or "", len(one.libraries) or "", one.summary] for one in said.advisories]
        print_table(out, ("id", "versions", "libraries", "summary"), rows, empty="it names no advisory")
    raise typer.Exit(HELD if stale else 0)


def _document(entry: Entry | None, said: AdvisoryList | None, *, stale: bool) -> dict[str, Any]:
    if entry is None or said is None:
        return {"list": None}
    body = said.model_dump(mode="json", by_alias=True)
    return {"list": body, "entry": entry.seq, "signer": entry.body["signer"], "expired": stale}


@app.command("affected")
def affected(state: StateOption = None, json_: JsonOption = False) -> None:
    """List what is promoted and was accepted under a runtime that the list in force speaks of. Nothing is moved.

    Exit 0: nothing is affected; 3: something is; 4: of something it is not known under what it was accepted.
    """
    with _inside(state) as (ledger, reviewers):
        entry = register.newest(ledger)
        if entry is None:
            raise UsageError("no list was ever installed", remedy="acceptd advisory install FILE")
        said = register.verified(entry, reviewers)
        found = [look(ledger, said, one) for one in promoted(ledger, lambda _model, _channel: True)]
    stale = said.expires_at <= utc_now()
    code = worst([HELD if one.hits else UNKNOWN if one.unknown else 0 for one in found])
    if json_:
        rows = [_row(one) for one in found]
        document = {"list": said.number, "expired": stale, "releases": rows, "exit_code": code}
        typer.echo(json.dumps(document, sort_keys=True))
    else:
        _print(found, said, stale=stale)
    raise typer.Exit(code)


def _row(one: Affected) -> dict[str, Any]:
    standing = one.standing
    return {
        "model_id": standing.model_id,
        "bundle_digest": standing.bundle_digest,
        "places": [{"channel": channel, "number": number} for channel, number in standing.places],
        "revoked": standing.revoked,
        "status": "affected" if one.hits else "unknown" if one.unknown else "not affected",
        "unknown": one.unknown,
        "runtimes": [{"identity": name, "onnxruntime": version} for name, version in one.runtimes],
        "advisories": [hit.model_dump() for hit in one.hits],
    }


def _print(found: list[Affected], said: AdvisoryList, *, stale: bool) -> None:
    out = console()
    for one in found:
        if not one.hits and not one.unknown:
            continue
        standing = one.standing
        word = "affected" if one.hits else "unknown "
        head = f"{word}  {standing.model_id}  {standing.bundle_digest[:12]}  {standing.where}"
        out.print(line(head + ("  revoked" if standing.revoked else ""), 300), soft_wrap=True)
        for hit in one.hits:
            out.print(f"  {line(hit.id, 64)}: {line(hit.because, 300)}", soft_wrap=True)
        if one.unknown:
            out.print(f"  {line(one.unknown, 400)}", soft_wrap=True)
    hits, unknown = (sum(bool(one.hits) for one in found), sum(bool(one.unknown) for one in found))
    words = f"{len(found)} promoted, by list {said.number}: {hits} affected, {unknown} unknown"
    out.print(words + (f"; the list EXPIRED at {said.expires_at}" if stale else ""), soft_wrap=True)


@contextmanager
def _inside(state: Path | None) -> Iterator[tuple[Ledger, Reviewers]]:
    home = require_state(chosen_state(state)).state
    reviewers = load_reviewers(policies_directory(load_settings(home)))
    with Ledger.open(home, create=False) as ledger:
        yield ledger, reviewers


def _json(path: Path, what: str) -> dict[str, Any]:
    try:
        found = json.loads(read_limited(path, MAX_BYTES * 2, what))
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"{path}: no {what.partition(' ')[2]}: {str(error)[:200]}") from error
    if not isinstance(found, dict):
        raise MalformedError(f"{path}: no {what.partition(' ')[2]}: no JSON object")
    return found
