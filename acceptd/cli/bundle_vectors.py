"""``acceptd bundle vectors``: make golden sets, and say what they prove."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from acceptd.cli.bundle_desk import app, commands, desk, row, rules_of
from acceptd.cli.common import StateOption, chosen_state, console, existing
from acceptd.report.escape import line


@app.command("vectors")
def vectors(
    bundle: Annotated[Path, typer.Argument(help="The directory that holds bundle.toml.")],
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--from", metavar="FILE.npz", help="Arrays by the names of the inputs; each file is one set."
        ),
    ] = None,
    random: Annotated[
        int,
        typer.Option("--random", min=0, help="So many sets of random inputs in the declared ranges and sizes."),
    ] = 0,
    seed: Annotated[
        str, typer.Option("--seed", help="With --random: any text; the same one gives the same draws.")
    ] = "acceptd",
    oracle: Annotated[
        list[str] | None,
        typer.Option("--oracle", help="reference, onnxruntime, or a FILE.npz of expected values for each --from."),
    ] = None,
    origin: Annotated[
        str, typer.Option("--origin", help="Where expected values of your own come from, in a few words.")
    ] = "",
    model: Annotated[str, typer.Option("--model", help="Which model of the bundle; default: the only one.")] = "",
    state: StateOption = None,
) -> None:
    """Make golden sets from inputs and an oracle; bundle.toml names them with an honest origin."""
    from acceptd.bundling.vectors import Wanted, make

    rules = rules_of(chosen_state(state))
    root = existing(bundle, "the bundle")
    sources = tuple(existing(path, "the file of inputs") for path in inputs or ())
    given = oracle or ["reference"]
    own = tuple(existing(Path(one), "the file of expected values") for one in given if one.endswith(".npz"))
    other = [one for one in given if not one.endswith(".npz")]
    wanted = Wanted(sources, random, seed, other[0] if other else "", own if not other else (), origin, model)
    if len(other) > 1 or (other and own):
        from acceptd.errors import UsageError

        raise UsageError("more than one oracle", remedy="give one of reference, onnxruntime, or files")
    wanted.checked()
    with desk(rules, "computing") as bench:
        made = make(bench, root, wanted)
    console().print(
        f"made {len(made.sets)} golden set{'s' * (len(made.sets) != 1)} in {line(bundle)}", soft_wrap=True
    )
    row("sets", ", ".join(made.sets))
    row("origin", line(made.origin.text, 300))
    row("proves", made.origin.proves.removeprefix("they prove "))
    for name in made.unranged:
        row("range", f"nobody declared one for {line(name, 80)}: drawn from -1 to 1")
    if made.locked:
        row("lock", "the lock in bundle.toml does not name them yet")
    commands([f"acceptd bundle lock {shlex.quote(str(bundle))}", f"acceptd check {shlex.quote(str(bundle))}"])
