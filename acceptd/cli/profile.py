"""``acceptd profile``: named runtimes side by side, what they really are, and their pins."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from acceptd.cell.client import Cell
from acceptd.cell.place import temporary_place
from acceptd.cli.common import (
    EXIT_USAGE,
    JsonOption,
    StateOption,
    chosen_state,
    console,
    fail,
    progress_console,
)
from acceptd.config import load_settings, policies_directory
from acceptd.errors import ConfigError, UsageError, UserError
from acceptd.policy.check import examine
from acceptd.policy.load import digest, named_profile
from acceptd.policy.profile import Profile
from acceptd.report.escape import line
from acceptd.runtime.measure import Measured, measure, pin_table, validated

PROFILES: Final = "profiles"
BUILT_IN: Final = "cpu"
NamesArgument = Annotated[
    list[str] | None, typer.Argument(help="Names of profiles, or paths of their files; default: all.")
]

app = typer.Typer(help="Named runtimes: interpreter, onnxruntime, libraries, options.", no_args_is_help=True)


@app.command("show")
def show(names: NamesArgument = None, state: StateOption = None, json_: JsonOption = False) -> None:
    """Start each profile's runtime in the cell and show what it really is, side by side.

    Exit 2 if one cannot be started or is not what it pins.
    """
    wanted = [_tried(path) for path in _files(names, state)]
    measured = iter(_measured([one.profile for one in wanted if not one.problem]))
    found = [one if one.problem else next(measured) for one in wanted]
    if json_:
        typer.echo(json.dumps({"profiles": [_document(one) for one in found]}, sort_keys=True))
    else:
        console().print(_side_by_side(found))
    if any(one.problem or one.different for one in found):
        raise typer.Exit(EXIT_USAGE)


@app.command("pin")
def pin(
    name: Annotated[str, typer.Argument(help="A profile's name, or the path of its file.")],
    state: StateOption = None,
) -> None:
    """Print the table ``[libraries]`` with every library that the profile's runtime maps in the cell.

    Look at what changed before you put it into the profile: a pin that is printed from a replaced
    library says that it is right.
    """
    (path,) = _files([name], state)
    (found,) = _measured([_load(path)])
    typer.echo(pin_table(found), nl=False)


@app.command("check")
def check(names: NamesArgument = None, state: StateOption = None) -> None:
    """Validate profile files with everything that they name: owners, digests, interpreter, version."""
    code = 0
    for path in _files(names, state):
        if not path.exists():
            console().print(f"{BUILT_IN}: built in, digest {digest(Profile())}", markup=False)
            continue
        _, troubles = examine(path, "profile")
        for one in troubles:
            code = fail(one.text(path), one.remedy)
        if troubles:
            continue
        try:
            console().print(f"{path}: valid, digest {digest(validated(path))}", markup=False)
        except UserError as error:
            code = fail(error.message, error.remedy, code=error.exit_code)
    if code:
        raise typer.Exit(code)


def _files(names: Sequence[str] | None, state: Path | None) -> list[Path]:
    """Return the files of profiles by name or path; all of the policies' directory where none is named."""
    directory = policies_directory(load_settings(chosen_state(state))) / PROFILES
    if names:
        found = [Path(name) if name.endswith(".toml") else directory / f"{name}.toml" for name in names]
        for name, path in zip(names, found, strict=True):
            if not path.exists() and name != BUILT_IN:
                known = ", ".join(sorted(one.stem for one in directory.glob("*.toml"))) or "none"
                raise UsageError(f"there is no profile {name!r}", remedy=f"{directory} has: {known}")
        return found
    return sorted(directory.glob("*.toml")) or [directory / f"{BUILT_IN}.toml"]


def _tried(path: Path) -> Measured:
    """Return the profile of a file, not yet measured; where it is refused, why."""
    try:
        return Measured(_load(path))
    except ConfigError as error:
        return Measured(Profile.model_construct(name=path.stem), problem=str(error), refused=True)


def _load(path: Path) -> Profile:
    return named_profile(path) if path.exists() or path.stem != BUILT_IN else Profile()


def _measured(profiles: Sequence[Profile]) -> list[Measured]:
    with (
        temporary_place("acceptd-profile-") as home,
        progress_console().status("starting each runtime in the cell"),
    ):
        sealed = home / "sealed"
        sealed.mkdir(mode=0o755)
        with Cell(sealed) as cell:
            return list(measure(cell, profiles))


def _document(one: Measured) -> dict[str, Any]:
    return {
        "name": one.profile.name,
        "digest": None if one.refused else digest(one.profile),
        "profile": None if one.refused else one.profile.model_dump(mode="json", by_alias=True),
        "identity": one.identity or None,
        "runtime": one.record.model_dump(mode="json", by_alias=True) if one.record is not None else None,
        "problem": one.problem,
        "differences": [difference.sentence() for difference in one.different],
    }


def _side_by_side(found: Sequence[Measured]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=True)
    table.add_column("", style="dim", no_wrap=True)
    for one in found:
        table.add_column(line(one.profile.name, 64), overflow="fold", ratio=1)
    columns = [{"problem": one.problem} if one.refused else _column(one) for one in found]
    for name in max(columns, key=len):
        if any(column.get(name) for column in columns):
            table.add_row(name, *(line(column.get(name, ""), 300) or "—" for column in columns))
    return table


def _column(one: Measured) -> dict[str, str]:
    """Return one profile's cells, top to bottom; what is not known is empty."""
    profile, record = one.profile, one.record
    operators = [f"{item.domain} (abi {item.abi})" for item in profile.custom_operators]
    return {
        "interpreter": profile.interpreter or "acceptd's own",
        "python": f"{record.implementation} {record.python}" if record else "",
        "onnxruntime": record.onnxruntime if record else profile.onnxruntime,
        "distribution": record.distribution if record else "",
        "numpy": record.numpy if record else "",
        "available": ", ".join(_short(name) for name in record.available_providers) if record else "",
        "providers": ", ".join(_short(name) for name in profile.providers),
        "cpu fallback": "allowed" if profile.allow_cpu_fallback else "refused",
        "threads": f"{profile.intra_op_threads} intra-op, {profile.inter_op_threads} inter-op",
        "optimisation": profile.optimisation,
        "custom operators": ", ".join(operators),
        "reduced build": profile.reduced_build.config if profile.reduced_build is not None else "",
        "cpu class": record.cpu_class if record else "",
        "libraries": _libraries(one),
        "identity": one.identity,
        "problem": one.problem,
    }


def _short(provider: str) -> str:
    return provider.removesuffix("ExecutionProvider")


def _libraries(one: Measured) -> str:
    if one.record is None:
        return ""
    count = f"{len(one.record.libraries)} mapped"
    if one.different:
        first = one.different[0].sentence()
        return f"{count}; {len(one.different)} not as pinned, first: {first}"
    return f"{count}, {'all pinned' if one.profile.libraries else 'none pinned'}"
