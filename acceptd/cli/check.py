"""``acceptd check``: judge a bundle, or a whole directory of them, without a daemon."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from acceptd.acceptance import ANY_TEAM
from acceptd.cli.common import (
    EXIT_BY_VERDICT,
    JsonOption,
    StateOption,
    chosen_state,
    console,
    counted,
    end_in_order,
    existing,
    progress_console,
    worst,
)
from acceptd.config import load_settings, policies_directory
from acceptd.errors import UsageError
from acceptd.report.escape import line
from acceptd.report.targets import Targets
from acceptd.rules import Rules, load_rules

WORKERS = "With --suite: 0 means one per core, and one more where there are many bundles."
MANY: Final = 64
"""From so many bundles on a lane more than there are cores pays: while one waits, for a process or for its turn,
another one works. It costs the start of a warm parent."""

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one policy key, for this check only."),
]


def check(
    path: Annotated[Path | None, typer.Argument(help="A bundle: a directory, .zip, .tar or .tar.gz.")] = None,
    suite: Annotated[Path | None, typer.Option("--suite", help="Judge every bundle below this directory.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Print every finding, warnings and notes too; of a suite, every bundle.")
    ] = False,
    json_: JsonOption = False,
    jsonl: Annotated[Path | None, typer.Option("--jsonl", help="Write one JSON object a line and bundle.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write the report of one bundle as HTML.")] = None,
    sarif: Annotated[Path | None, typer.Option("--sarif", help="Write the findings as SARIF 2.1.0.")] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Write the verdicts as JUnit XML.")] = None,
    policy: Annotated[str, typer.Option("--policy", help="A policy's name, or a file.")] = "",
    overrides: SetOption = None,
    against: Annotated[
        Path | None, typer.Option("--against", help="Compare with this bundle, judged the same way first.")
    ] = None,
    team: Annotated[str, typer.Option("--team", help="The team that the bundle must belong to.")] = "",
    workers: Annotated[int, typer.Option("--workers", min=0, help=WORKERS)] = 0,
    state: StateOption = None,
) -> None:
    """Judge without a daemon: nothing is recorded, nothing is promoted."""
    if (path is None) == (suite is None):
        raise UsageError("give one bundle, or --suite DIR", remedy="acceptd check PATH")
    if against is not None and suite is not None:
        raise UsageError("--against goes with one bundle", remedy="acceptd check PATH --against OLDER")
    if html is not None and suite is not None:
        raise UsageError("--html goes with one bundle", remedy="acceptd check PATH --html report.html")
    end_in_order()
    rules = _rules(chosen_state(state), policy, overrides or [])
    wanted = {"--jsonl": jsonl, "--html": html, "--sarif": sarif, "--junit": junit}
    if suite is not None:
        place = existing(suite, "the directory")
        with Targets(wanted) as targets:
            code = _suite(place, suite, rules, targets, workers, as_json=json_, every=every)
    else:
        assert path is not None
        place = existing(path, "the bundle")
        with Targets(wanted, outside=place) as targets:
            older = existing(against, "the bundle to compare with") if against is not None else None
            code = _one(place, rules, team, targets, older, as_json=json_, every=every)
    raise typer.Exit(code)


def _rules(state: Path, policy: str, overrides: list[str]) -> Rules:
    settings = load_settings(state)
    return load_rules(policies_directory(settings), policy or settings.policy, overrides)


def _one(
    path: Path, rules: Rules, team: str, targets: Targets, against: Path | None, *, as_json: bool, every: bool
) -> int:
    from acceptd import local

    for one in (path, against):
        if one is not None:
            local.kind_of(one)  # a wrong path must not first start a cell
    err = progress_console()
    with (
        err.status("starting the cell") as status,
        local.bench(rules, cores=os.cpu_count() or 1, suite=False) as bench,
    ):
        report = local.check_one(
            bench,
            path,
            team=team or ANY_TEAM,
            progress=lambda stage: status.update(f"{stage} …"),
            against=against,
        )
    if "--jsonl" in targets:
        targets.write("--jsonl", json_line(report))
    if "--html" in targets:
        from acceptd.report.html import render

        targets.write("--html", render(report).encode("utf-8"))
    write_findings(targets, [("", report)])
    if as_json:
        typer.echo(json_line(report), nl=False)
    else:
        from acceptd.report.terminal import print_verdict

        # Without a manifest that can be read the bundle has no name but its path.
        print_verdict(console(), {"path": path.name, **report}, every_finding=every, ticket=True)
    return EXIT_BY_VERDICT[report["verdict"]]


def json_line(report: Mapping[str, Any]) -> bytes:
    """Return one report as one line of ASCII JSON."""
    return json.dumps(report, ensure_ascii=True, sort_keys=True).encode("ascii") + b"\n"


def write_findings(targets: Targets, reports: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Write SARIF and JUnit of (place, report) pairs, as far as they are wanted."""
    if "--sarif" in targets:
        from acceptd.report import sarif

        targets.write("--sarif", json_line(sarif.render(reports)))
    if "--junit" in targets:
        from acceptd.report import junit

        targets.write("--junit", junit.render(reports))


def _suite(
    root: Path, shown: Path, rules: Rules, targets: Targets, workers: int, *, as_json: bool, every: bool
) -> int:
    from acceptd import local

    cases = local.find_cases(root)
    if not cases:
        raise UsageError(
            f"no bundle below {shown}", remedy="a bundle is a directory with a bundle.toml or a model.onnx"
        )
    cores = os.cpu_count() or 1
    lanes = workers or cores + (len(cases) >= MANY)
    start = time.monotonic()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    wanted = ("--jsonl", "--sarif", "--junit")
    tally = _Tally(cases, root, shown, targets, keep="--sarif" in targets or "--junit" in targets, every=every)
    with (
        local.bench(rules, cores=max(lanes, cores), suite=True, workers=lanes) as bench,
        Progress(*columns, console=progress_console()) as progress,
    ):
        task = progress.add_task("checking", total=len(cases))

        def done(case: Path, report: dict[str, Any]) -> None:
            tally.add(case, report)
            progress.update(task, advance=1, description=f"checking · {tally.verdicts['accepted']} accepted")

        local.check_many(bench, cases, done=done, whole=any(name in targets for name in wanted))
    write_findings(targets, tally.kept)
    summary = {
        "cases": len(cases),
        "verdicts": dict(sorted(tally.verdicts.items())),
        "seconds": round(time.monotonic() - start, 3),
        "policy_digest": rules.policy_digest,
        "codes": dict(sorted(tally.codes.items(), key=lambda pair: (-pair[1], pair[0]))),
    }
    if as_json:
        typer.echo(json.dumps(summary, sort_keys=True))
    else:
        _print_summary(summary, tally.lines)
    return worst([EXIT_BY_VERDICT[verdict] for verdict in tally.verdicts])


class _Tally:
    """What a suite keeps of its reports: counts, and lines in the order of the cases, whoever ends first."""

    def __init__(
        self, cases: list[Path], root: Path, shown: Path, targets: Targets, *, keep: bool, every: bool
    ) -> None:
        self._order = {case: number for number, case in enumerate(cases)}
        self._root, self._shown, self._targets, self._keep, self._every = root, shown, targets, keep, every
        self._waiting: dict[int, tuple[str, dict[str, Any]]] = {}
        self._next = 0
        self.verdicts: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.kept: list[tuple[str, dict[str, Any]]] = []
        self.lines: list[str] = []

    def add(self, case: Path, report: dict[str, Any]) -> None:
        """Count one report; write what is next in order."""
        self.verdicts[report["verdict"]] += 1
        for finding in report["findings"]:
            if finding["severity"] in {"reject", "hold"}:
                self.codes[finding["code"]] += 1
        self._waiting[self._order[case]] = (str(case.relative_to(self._root)), report)
        while self._next in self._waiting:
            place, ready = self._waiting.pop(self._next)
            self._next += 1
            path = str(self._shown / place)
            if "--jsonl" in self._targets:
                self._targets.write("--jsonl", json_line({"path": path, **ready}))
            if self._keep:
                self.kept.append((place, ready))
            if self._every:
                from acceptd.report.terminal import one_line

                self.lines.append(one_line({"path": path, **ready}))


def _print_summary(summary: dict[str, Any], lines: list[str]) -> None:
    out = console()
    for text in lines:
        out.print(text, soft_wrap=True)
    verdicts = "  ".join(f"{name} {count}" for name, count in summary["verdicts"].items())
    mean = summary["seconds"] / summary["cases"] * 1000
    out.print(f"{counted(summary['cases'], 'bundle')}: {verdicts}")
    for code, count in list(summary["codes"].items())[:12]:
        out.print(f"  {count:6d}  {line(code, 80)}")
    out.print(f"{summary['seconds']:.1f} s, {mean:.0f} ms a bundle")
