"""``acceptd check-changed``: check the bundles that changed files belong to; for pre-commit and CI."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from acceptd.acceptance import ANY_TEAM
from acceptd.cli.check import SetOption
from acceptd.cli.common import (
    EXIT_BY_VERDICT,
    StateOption,
    chosen_state,
    console,
    end_in_order,
    progress_console,
    worst,
)
from acceptd.config import load_settings, policies_directory
from acceptd.report.escape import line
from acceptd.rules import load_rules

MANIFEST = "bundle.toml"


def bundles_of(files: Iterable[Path], top: Path) -> tuple[list[Path], list[Path]]:
    """Return the bundles below ``top`` that ``files`` belong to, sorted, and the models that belong to none.

    A file belongs to the nearest directory above it that has a ``bundle.toml``; names are taken as they are
    written, and no link is followed. What lies outside ``top``, or is gone with its whole bundle, belongs to none.
    """
    found: set[Path] = set()
    lone: set[Path] = set()
    for file in files:
        path = Path(os.path.normpath(top / file))
        if not path.is_relative_to(top):
            continue
        inside = [one for one in path.parents if one.is_relative_to(top)]
        home = next((one for one in inside if (one / MANIFEST).is_file()), None)
        if home is not None:
            found.add(home)
        elif path.suffix == ".onnx" and path.is_file():
            lone.add(path)
    return sorted(found), sorted(lone)


def check_changed(
    files: Annotated[list[Path] | None, typer.Argument(help="Files that changed.")] = None,
    policy: Annotated[str, typer.Option("--policy", help="A policy's name, or a file.")] = "",
    overrides: SetOption = None,
    state: StateOption = None,
) -> None:
    """Check each bundle that one of these files belongs to. Ends as the worst of them."""
    end_in_order()
    top = Path.cwd()
    bundles, lone = bundles_of(files or [], top)
    out = console()
    for path in lone:
        out.print(f"{line(path.relative_to(top))}: in no bundle, not checked: acceptd bundle init makes one")
    if not bundles:
        return
    settings = load_settings(chosen_state(state))
    rules = load_rules(policies_directory(settings), policy or settings.policy, overrides or [])
    from acceptd import local
    from acceptd.report.terminal import print_verdict

    codes: list[int] = []
    with (
        progress_console().status("starting the cell") as status,
        local.bench(rules, cores=os.cpu_count() or 1, suite=False) as bench,
    ):
        for path in bundles:
            name = str(path.relative_to(top))
            status.update(f"{line(name)} …")
            report = local.check_one(bench, path, team=ANY_TEAM)
            codes.append(EXIT_BY_VERDICT[report["verdict"]])
            out.print(f"{line(name)}: {report['verdict']}", soft_wrap=True)
            if codes[-1]:
                print_verdict(out, report)
    raise typer.Exit(worst(codes))
