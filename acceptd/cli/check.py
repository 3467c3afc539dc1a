"""``acceptd check``: judge a bundle, or a whole directory of them, without a daemon."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from acceptd.acceptance import ANY_TEAM
from acceptd.cli.common import (
    EXIT_BY_VERDICT,
    JsonOption,
    StateOption,
    chosen_state,
    console,
    existing,
    progress_console,
    worst,
)
from acceptd.config import load_settings, policies_directory
from acceptd.errors import UsageError
from acceptd.rules import Rules, load_rules

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one policy key, for this check only."),
]


def check(
    path: Annotated[Path | None, typer.Argument(help="A bundle: a directory, .zip, .tar or .tar.gz.")] = None,
    suite: Annotated[Path | None, typer.Option("--suite", help="Judge every bundle below this directory.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Print every finding, warnings and notes too.")] = False,
    json_: JsonOption = False,
    jsonl: Annotated[Path | None, typer.Option("--jsonl", help="With --suite: one JSON object a line.")] = None,
    policy: Annotated[str, typer.Option("--policy", help="A policy's name, or a file.")] = "",
    overrides: SetOption = None,
    team: Annotated[str, typer.Option("--team", help="The team that the bundle must belong to.")] = "",
    workers: Annotated[int, typer.Option("--workers", min=0, help="With --suite: 0 means one per core.")] = 0,
    state: StateOption = None,
) -> None:
    """Judge without a daemon: nothing is recorded, nothing is promoted."""
    if (path is None) == (suite is None):
        raise UsageError("give one bundle, or --suite DIR", remedy="acceptd check PATH")
    if jsonl is not None and suite is None:
        raise UsageError("--jsonl goes with --suite", remedy="use --json for one bundle")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    rules = _rules(chosen_state(state), policy, overrides or [])
    if suite is not None:
        code = _suite(existing(suite, "the directory"), suite, rules, jsonl, workers, as_json=json_)
    else:
        assert path is not None
        code = _one(existing(path, "the bundle"), rules, team, as_json=json_, every=every)
    raise typer.Exit(code)


def _leave(number: int, _frame: object) -> None:
    """End as Ctrl-C does, so that no process and no temporary directory is left."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _rules(state: Path, policy: str, overrides: list[str]) -> Rules:
    settings = load_settings(state)
    return load_rules(policies_directory(settings), policy or settings.policy, overrides)


def _one(path: Path, rules: Rules, team: str, *, as_json: bool, every: bool) -> int:
    from acceptd import local

    local.kind_of(path)  # a wrong path must not first start a cell
    err = progress_console()
    with (
        err.status("starting the cell") as status,
        local.bench(rules, cores=os.cpu_count() or 1, suite=False) as bench,
    ):
        report = local.check_one(
            bench, path, team=team or ANY_TEAM, progress=lambda stage: status.update(f"{stage} …")
        )
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=True, sort_keys=True))
    else:
        from acceptd.report.terminal import print_verdict

        print_verdict(console(), report, every_finding=every)
    return EXIT_BY_VERDICT[report["verdict"]]


def _suite(root: Path, shown: Path, rules: Rules, jsonl: Path | None, workers: int, *, as_json: bool) -> int:
    from acceptd import local

    cases = local.find_cases(root)
    if not cases:
        raise UsageError(
            f"no bundle below {shown}", remedy="a bundle is a directory with a bundle.toml or a model.onnx"
        )
    counts: Counter[str] = Counter()
    codes: list[int] = []
    cores = os.cpu_count() or 1
    start = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    lines: TextIO | None = jsonl.open("w", encoding="utf-8") if jsonl is not None else None
    rejected: Counter[str] = Counter()
    try:
        with (
            local.bench(rules, cores=cores, suite=True) as bench,
            Progress(*columns, console=progress_console()) as progress,
        ):
            task = progress.add_task("checking", total=len(cases))

            def done(case: Path, report: dict[str, Any]) -> None:
                place = str(shown / case.relative_to(root))
                counts[report["verdict"]] += 1
                codes.append(EXIT_BY_VERDICT[report["verdict"]])
                for finding in report["findings"]:
                    if finding["severity"] in {"reject", "hold"}:
                        rejected[finding["code"]] += 1
                if lines is not None:
                    lines.write(json.dumps({"path": place, **report}, ensure_ascii=True, sort_keys=True) + "\n")
                progress.update(task, advance=1, description=f"checking · {counts['accepted']} accepted")

            local.check_many(bench, cases, workers=workers or cores, done=done)
    finally:
        if lines is not None:
            lines.close()
    spent = time.monotonic() - start
    summary = {
        "cases": len(cases),
        "verdicts": dict(sorted(counts.items())),
        "seconds": round(spent, 3),
        "policy_digest": rules.policy_digest,
        "codes": dict(rejected.most_common()),
    }
    if as_json:
        typer.echo(json.dumps(summary, sort_keys=True))
    else:
        _print_summary(summary)
    return worst(codes)


def _print_summary(summary: dict[str, Any]) -> None:
    out = console()
    verdicts = "  ".join(f"{name} {count}" for name, count in summary["verdicts"].items())
    mean = summary["seconds"] / summary["cases"] * 1000
    out.print(f"{summary['cases']} bundles: {verdicts}", markup=False)
    for code, count in list(summary["codes"].items())[:12]:
        out.print(f"  {count:6d}  {code}", markup=False)
    out.print(f"{summary['seconds']:.1f} s, {mean:.0f} ms a bundle", markup=False)
