"""``acceptd release export``: copy what is current to a directory that verifies itself, or verify one."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from acceptd.cli.common import EXIT_AUDIT, JsonOption, StateOption, chosen_state, console
from acceptd.cli.tables import print_table
from acceptd.config import require_state
from acceptd.errors import ExportError, UsageError
from acceptd.policy.names import valid_model_id, valid_name
from acceptd.report.escape import line, size

VERIFY = "verify"


def export(
    what: Annotated[str, typer.Argument(help="A model id (team/name), or the word verify.", metavar="MODEL")],
    directory: Annotated[Path | None, typer.Argument(help="After verify: the exported directory.")] = None,
    to: Annotated[Path | None, typer.Option("--to", help="The directory; it must exist.")] = None,
    kind: Annotated[str, typer.Option("--kind", help="plain or triton.")] = "plain",
    channel: Annotated[str, typer.Option("--channel", help="The channel.")] = "production",
    keys: Annotated[Path | None, typer.Option("--keys", help="With verify: a trusted keyring.json.")] = None,
    keep: Annotated[int, typer.Option("--keep", min=1, max=100, help="Numbers that stay there.")] = 2,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Export a model's current release, or verify an export: export verify DIR --keys KEYRING."""
    if what == VERIFY:
        if directory is None or keys is None or to is not None:
            raise UsageError("verify takes a directory and --keys", remedy="release export verify DIR --keys FILE")
        _verify(directory.absolute(), keys, as_json=json_)
        return
    if to is None or directory is not None or keys is not None:
        raise UsageError("say where to export to", remedy="release export MODEL --to DIR --kind plain")
    if kind not in {"plain", "triton"}:
        raise UsageError(f"--kind {kind}: there are plain and triton")
    try:
        valid_model_id(what)
        valid_name(channel)
    except ValueError as error:
        raise UsageError(str(error), remedy="write it as team/name") from error
    _export(what, channel, to.absolute(), kind, keep, state, as_json=json_)


def _export(
    model: str, channel: str, to: Path, kind: Any, keep: int, state: Path | None, *, as_json: bool
) -> None:
    from acceptd.export.follow import Origin, Target, follow, selecting
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
        done = follow(origin, Target(to, kind, selecting([(model, channel)]), keep), whole=True)
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


def _verify(directory: Path, keys: Path, *, as_json: bool) -> None:
    from acceptd.export.verify import verify
    from acceptd.record.keys import Keyring

    report = verify(directory, Keyring.load(keys))
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
