"""``acceptd release export``: copy what is current to a place that verifies itself, or verify one."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acceptd.cli.common import EXIT_AUDIT, JsonOption, StateOption, chosen_state, console
from acceptd.cli.tables import print_table
from acceptd.config import require_state
from acceptd.errors import ExportError, UsageError
from acceptd.policy.names import valid_model_id, valid_name
from acceptd.report.escape import line, size

if TYPE_CHECKING:
    from acceptd.objectstore.remote import Remote

VERIFY = "verify"
BUCKET = "s3://"


def export(
    what: Annotated[str, typer.Argument(help="A model id (team/name), or the word verify.", metavar="MODEL")],
    place: Annotated[
        str, typer.Argument(help="After verify: the exported directory, or s3://bucket/prefix.", metavar="PLACE")
    ] = "",
    to: Annotated[str, typer.Option("--to", help="A directory that exists, or s3://bucket/prefix.")] = "",
    kind: Annotated[str, typer.Option("--kind", help="plain or triton.")] = "plain",
    channel: Annotated[str, typer.Option("--channel", help="The channel.")] = "production",
    keys: Annotated[Path | None, typer.Option("--keys", help="With verify: a trusted keyring.json.")] = None,
    endpoint: Annotated[str, typer.Option("--endpoint", help="Of an s3:// place that is not Amazon's.")] = "",
    keep: Annotated[int, typer.Option("--keep", min=1, max=100, help="Numbers that stay there.")] = 2,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Export a model's current release, or verify an export: export verify PLACE --keys KEYRING."""
    if what == VERIFY:
        if not place or keys is None or to:
            raise UsageError("verify takes a place and --keys", remedy="release export verify PLACE --keys FILE")
        _verify(place, endpoint, keys, as_json=json_)
        return
    if not to or place or keys is not None:
        raise UsageError("say where to export to", remedy="release export MODEL --to DIR --kind plain")
    if kind not in {"plain", "triton"}:
        raise UsageError(f"--kind {kind}: there are plain and triton")
    try:
        valid_model_id(what)
        valid_name(channel)
    except ValueError as error:
        raise UsageError(str(error), remedy="write it as team/name") from error
    _export(what, channel, to, endpoint, kind, keep, state, as_json=json_)


def _export(
    model: str, channel: str, to: str, endpoint: str, kind: Any, keep: int, state: Path | None, *, as_json: bool
) -> None:
    from acceptd.export.directory import Target
    from acceptd.export.follow import Origin, follow, selecting
    from acceptd.record.log import Ledger
    from acceptd.release.book import read_book
    from acceptd.release.layout import keys_lock
    from acceptd.release.signers import ReleaseKeys

    paths = require_state(chosen_state(state))
    with keys_lock(paths.state, shared=True), Ledger.open(paths.state, create=False) as ledger:
        row = read_book(ledger).current(model, channel)
        if row is None:
            raise ExportError(f"{model} has no release on {channel}", remedy="acceptd release list")
        origin = Origin(paths.state, ledger, ReleaseKeys.load(paths.state, ledger), time.time)
        selects = selecting([(model, channel)])
        if to.startswith(BUCKET):
            from acceptd.export.bucket import BucketTarget

            done = follow(origin, BucketTarget(_bucket(to, endpoint), kind, selects, keep), whole=True)
        else:
            done = follow(origin, Target(Path(to).absolute(), kind, selects, keep), whole=True)
    if as_json:
        typer.echo(
            json.dumps({"done": done.done, "problems": done.problems, "number": row.number}, sort_keys=True)
        )
    else:
        out = console()
        for text in done.done or ["it was there already, whole"]:
            out.print(line(text, 400))
        for text in done.problems:
            out.print(f"problem: {line(text, 400)}")
    if done.problems:
        raise typer.Exit(EXIT_AUDIT)


def _bucket(url: str, endpoint: str) -> Remote:
    """Return the bucket that the command line names; raise UsageError where it cannot be meant."""
    from pydantic import ValidationError

    from acceptd.objectstore.objects import open_objects
    from acceptd.objectstore.settings import ObjectsTable

    try:
        table = ObjectsTable(url=url, endpoint=endpoint)
    except ValidationError as error:
        first = error.errors()[0]
        words, of_endpoint = str(first["msg"]).removeprefix("Value error, "), first["loc"] == ("endpoint",)
        remedy = "write --endpoint https://host:port" if of_endpoint else "write s3://bucket/prefix"
        raise UsageError(words, remedy=remedy) from None
    return open_objects(table, Path()).remote


def _verify(place: str, endpoint: str, keys: Path, *, as_json: bool) -> None:
    from acceptd.export.verify import examine, verify
    from acceptd.record.keys import Keyring

    keyring = Keyring.load(keys)
    if place.startswith(BUCKET):
        from acceptd.export.shelf import Shelf

        report = examine(Shelf(_bucket(place, endpoint)), place, keyring)
    else:
        report = verify(Path(place).absolute(), keyring)
    if as_json:
        typer.echo(json.dumps(asdict(report), sort_keys=True))
    else:
        rows = [
            [one.place, one.bundle_digest[:12], one.files, size(one.size), "yes" if one.served else ""]
            for one in report.verified
        ]
        columns = ("place", "digest", "files", "size", "served")
        print_table(console(), columns, rows, empty="nothing verifies")
        for text in report.problems:
            console().print(f"problem: {line(text, 400)}")
    if report.problems:
        raise typer.Exit(EXIT_AUDIT)
