"""``acceptd bundle``: from one's own model to a bundle; the commands of the modules beside it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acceptd.cli import bundle_vectors as bundle_vectors
from acceptd.cli.bundle_desk import app as app
from acceptd.cli.bundle_desk import commands, desk, row, rules_of
from acceptd.cli.common import (
    JsonOption,
    StateOption,
    chosen_state,
    console,
    counted,
    existing,
    progress_console,
)
from acceptd.policy.names import valid_model_id
from acceptd.report.escape import line, size

if TYPE_CHECKING:
    from acceptd.bundling import start
    from acceptd.rules import Rules


@app.command("init")
def init(
    models: Annotated[
        list[Path], typer.Argument(help="One or more .onnx files, or the directory that holds them.")
    ],
    id_: Annotated[str, typer.Option("--id", help="team/name; else a guess that the file marks.")] = "",
    version: Annotated[str, typer.Option("--version", help="The bundle's version.")] = "",
    origin: Annotated[
        str, typer.Option("--origin", help="Where the expected values of golden sets that lie there come from.")
    ] = "",
    into: Annotated[
        Path | None,
        typer.Option("--into", help="Copy model, external data and golden sets to this new directory."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a bundle.toml that is there.")] = False,
    state: StateOption = None,
) -> None:
    """Look at models in the cell and write a commented bundle.toml beside them."""
    from acceptd.bundling import start
    from acceptd.bundling.propose import Wishes
    from acceptd.errors import UsageError

    if id_:
        try:
            valid_model_id(id_)
        except ValueError as error:
            raise UsageError(str(error), remedy="give --id team/name") from error
    rules = rules_of(chosen_state(state))
    paths = [existing(path, "the model") for path in models]
    todo = start.plan(paths, into, most=rules.policy.limits.files, force=force)
    with desk(rules, "looking at the model") as bench:
        made = start.start(bench, todo, Wishes(id_, version, origin), force=force)
    _tell(made, todo, shown=into or (models[0] if paths[0].is_dir() else models[0].parent))


@app.command("lock")
def lock(
    bundle: Annotated[Path, typer.Argument(help="The directory that holds bundle.toml.")],
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Write nothing; exit 1 where a file differs from the lock, or none is there."
        ),
    ] = False,
    json_: JsonOption = False,
    state: StateOption = None,
) -> None:
    """Fix every file of a bundle, by size and SHA-256, in its bundle.toml, whose other lines stay as they are."""
    from acceptd.bundling import lock as locks

    rules = rules_of(chosen_state(state))
    root = existing(bundle, "the bundle")
    listing = locks.contents(root, rules.policy.limits)
    if check:
        raise typer.Exit(_compare(rules, root, bundle, as_json=json_))
    with desk(rules, "locking") as bench:
        files, changed = locks.lock(bench, root)
    digest = locks.digest_of(locks.contents(root, rules.policy.limits))
    if json_:
        typer.echo(json.dumps({"files": len(files), "changed": changed, "bundle_digest": digest}, sort_keys=True))
        return
    what = "locked" if changed else "locked already:"
    console().print(f"{what} {counted(len(files), 'file')} of {line(bundle)}", soft_wrap=True)
    row("bundle", digest)
    if changed and locks.signed(listing):
        row("sign", "model.sig was made over another bundle.toml: sign again, last")


def _compare(rules: Rules, root: Path, shown: Path, *, as_json: bool) -> int:
    from acceptd.bundling import lock as locks

    with desk(rules, "reading bundle.toml") as bench:
        found, digest = locks.differences(bench, root)
    if as_json:
        told = [{"code": one.code, "file": one.where, "message": one.message} for one in found]
        typer.echo(json.dumps({"bundle_digest": digest, "differences": told}, sort_keys=True))
    elif found:
        for one in found:
            console().print(f"{line(one.where)}: {line(one.message)}", soft_wrap=True)
        console().print(
            f"{len(found)} differ; `acceptd bundle lock {line(shlex.quote(str(shown)))}` locks them as they are",
            soft_wrap=True,
        )
    else:
        console().print(f"{line(shown)} is as its lock says", soft_wrap=True)
        row("bundle", digest)
    return 1 if found else 0


@app.command("pack")
def pack(
    bundle: Annotated[Path, typer.Argument(help="The directory that holds bundle.toml.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The archive: .tar.gz, .tar or .zip; default: DIR.tar.gz here."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an archive that is there.")] = False,
    json_: JsonOption = False,
    state: StateOption = None,
) -> None:
    """Pack a bundle into one archive, the same bytes for the same files, and print its digest."""
    from acceptd.bundling import lock as locks
    from acceptd.bundling import pack as packing

    limits = rules_of(chosen_state(state)).policy.limits
    root = existing(bundle, "the bundle")
    listing = locks.contents(root, limits)
    target = out or Path(f"{root.resolve().name}.tar.gz")
    with progress_console().status("packing …"):
        made = packing.pack(listing, target, limits, force=force)
    if json_:
        told = {"archive": str(target), "bundle_digest": made.digest, "files": made.files, "bytes": made.packed}
        typer.echo(json.dumps(told, sort_keys=True))
        return
    console().print(
        f"packed {counted(made.files, 'file')} into {line(target)}, {size(made.packed)}", soft_wrap=True
    )
    row("bundle", made.digest)


def _tell(made: start.Made, todo: start.Plan, *, shown: Path) -> None:
    out = console()
    manifest, goldens = made.proposal.manifest, made.looked.goldens
    inputs = sum(len(model.inputs) for model in manifest.models)
    outputs = sum(len(model.outputs) for model in manifest.models)
    counts = (
        (len(manifest.models), "model"),
        (inputs, "input"),
        (outputs, "output"),
        (len(goldens.names), "golden set"),
    )
    out.print(f"wrote {line(shown / 'bundle.toml')}", soft_wrap=True)
    row("found", ", ".join(counted(count, word) for count, word in counts))
    if not todo.copied and made.files > len(manifest.models):
        row("bundle", f"all {made.files} files of the directory belong to it; --into DIR copies what is needed")
    for text in made.proposal.left_out:
        row("left out", line(text, 300))
    for path in todo.unnamed:
        row("look", f"{line(path)} is no model of this bundle: name it too, or move it away")
    for seen in made.looked.models:
        for path in seen.missing:
            row("missing", f"external data of {line(seen.file)}: put {line(path)} there before all else")
    for text in made.proposal.fill_in:
        row("fill in", text)
    place = shlex.quote(str(shown))
    lines = [f"acceptd bundle lock {place}", f"acceptd check {place}"]
    if not goldens.names or len(goldens.smoke) == len(goldens.names):
        lines.insert(0, f"acceptd bundle vectors {place} --random 4 --oracle reference")
    commands(lines)
