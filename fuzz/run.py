"""Fuzz every target in turn under atheris: ``python -m fuzz.run --seconds 60``, or the targets that are named.

Everything is imported and instrumented once; each target then runs in a fork of that process, for its share of the
time, under libFuzzer. Saved inputs in ``fuzz/corpus/<target>`` are read, never written (but by ``fuzz.minimise``);
what covers more code goes to ``.cache/fuzz/<target>/corpus`` and is read again the next time. An input that breaks
a promise, takes 5 s of the processor or half a GiB more memory is kept in ``.cache/fuzz/<target>/findings``.
Ends 1 where there is a finding, with a table and ``.cache/fuzz/run.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import re
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fuzz.mutate import mutator
from fuzz.targets import CACHE, CORPUS, TARGETS, Check, Target

INSTRUMENTED: Final = ["acceptd", "sandbox", "tomllib", "rfc8785"]
ROUND_SECONDS: Final = 15
"""A long run goes round: each target has so long in a round, so that it may be stopped and still tell of all."""
CPU_SECONDS: Final = 5.0
"""Of one input; the longest has 64 KiB. Coverage counters make Python some three times slower."""
MEMORY_MB: Final = 512
HANG_SECONDS: Final = 120
_COVERAGE: Final = re.compile(rb"cov: (\d+) ft: \d+ corp: (\d+)/")
_EXECUTED: Final = re.compile(rb"stat::number_of_executed_units: (\d+)|^#(\d+)\t", re.MULTILINE)


@dataclass
class Result:
    """What became of one target. ``cpu_seconds``: user and system time of its process."""

    target: str
    executions: int = 0
    edges: int = 0
    corpus: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    findings: list[str] = field(default_factory=list)
    trouble: str = ""
    """The last words of a process that ended otherwise than by its time, a finding or a signal of ours."""


def main() -> int:
    """Parse the command line, instrument, run every target. Returns 1 where there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one of {', '.join(TARGETS)}; all")
    parser.add_argument("--seconds", type=float, default=60.0, help="over all targets together")
    parser.add_argument("--hours", type=float, help="the same, in hours")
    parser.add_argument(
        "--runs", type=int, default=0, help="so many of each target, the same ones each time; no time"
    )
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--json", type=Path, default=CACHE / "run.json", help="where the results go")
    options = parser.parse_args()
    if unknown := set(options.targets) - TARGETS.keys():
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    names = options.targets or list(TARGETS)
    seconds = options.seconds if options.hours is None else options.hours * 3600
    import atheris

    began = time.monotonic()
    # It writes a line for each of some two hundred modules.
    with contextlib.redirect_stderr(io.StringIO()), atheris.instrument_imports(include=INSTRUMENTED):
        checks = {name: TARGETS[name].load() for name in names}
    print(f"{len(names)} targets instrumented in {time.monotonic() - began:.0f} s", flush=True)
    results = {name: Result(name) for name in names}
    if options.runs:
        for name in names:
            with tempfile.TemporaryDirectory() as grown:  # what an earlier run found would change what is drawn
                one(TARGETS[name], checks[name], results[name], Path(grown), [f"-runs={options.runs}", "-seed=1"])
        write(options.json, list(results.values()), 0.0)
        show(list(results.values()))
        return 1 if any(row.findings or row.trouble for row in results.values()) else 0
    rounds = max(1, round(seconds / (ROUND_SECONDS * len(names))))
    share = seconds / rounds / len(names)
    for number in range(rounds):
        for name in names:
            seed = options.seed + number if options.seed else 0
            grown = CACHE / name / "corpus"
            grown.mkdir(parents=True, exist_ok=True)
            stop = [f"-max_total_time={max(1, round(share))}", f"-seed={seed}"]
            one(TARGETS[name], checks[name], results[name], grown, stop)
            row = results[name]
            mark = f"  {len(row.findings)} FINDINGS" if row.findings else ""
            print(
                f"{number + 1}/{rounds} {name:12} {row.executions:>9} runs  {row.edges:>6} edges{mark}", flush=True
            )
            write(options.json, list(results.values()), seconds)
    show(list(results.values()))
    return 1 if any(row.findings or row.trouble for row in results.values()) else 0


def one(target: Target, check: Check, result: Result, grown: Path, stop: list[str]) -> None:
    """Run one target in a fork until ``stop`` (libFuzzer's flags), and add what came of it to ``result``."""
    findings = CACHE / target.name / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    before = set(os.listdir(findings))
    arguments = [
        str(grown),
        str(CORPUS / target.name),
        *stop,
        f"-artifact_prefix={findings}/",
        "-print_final_stats=1",
    ]
    said, status, cpu, took = forked(target, check, arguments)
    new = sorted(set(os.listdir(findings)) - before)
    executed = [int(one or two) for one, two in _EXECUTED.findall(said)]
    covered = _COVERAGE.findall(said)
    result.executions += max(executed, default=0)
    result.edges = max([result.edges, *(int(edges) for edges, _ in covered)])
    result.corpus = int(covered[-1][1]) if covered else result.corpus
    result.seconds, result.cpu_seconds = result.seconds + took, result.cpu_seconds + cpu
    result.findings += new
    if new:
        (findings / f"{new[0]}.txt").write_bytes(said[-8000:])
    elif status != 0:
        how = f"signal {status & 0x7F}" if status & 0x7F else f"exit {status >> 8}"
        result.trouble = f"{said[-2000:].decode('utf-8', 'replace')}\nended by {how}"


def forked(target: Target, check: Check, arguments: list[str]) -> tuple[bytes, int, float, float]:
    """Run libFuzzer in a fork; return what it said, its status, CPU seconds and seconds."""
    log = CACHE / target.name / "log"
    began = time.monotonic()
    child = os.fork()
    if not child:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        # libFuzzer ends the process at the end of its time. A finding leaves as SystemExit and has to reach the
        # interpreter's own end, where libFuzzer keeps the input.
        _fuzz(target, check, arguments)
        raise SystemExit(70)
    _, status, used = os.wait4(child, 0)
    from fuzz.house import sweep

    sweep(child)
    return log.read_bytes(), status, used.ru_utime + used.ru_stime, time.monotonic() - began


def _fuzz(target: Target, check: Check, arguments: list[str]) -> None:
    import atheris

    fixed = [
        f"-max_len={target.most}", f"-timeout={HANG_SECONDS}",
        f"-report_slow_units={HANG_SECONDS}", f"-rss_limit_mb={_resident_mb() + MEMORY_MB}",
    ]  # fmt: skip
    more: dict[str, Any] = {}
    if target.form:  # atheris exchanges its own Mutate when it begins
        more["custom_mutator"] = mutator(target.form, lambda *arguments: atheris.Mutate(*arguments))  # noqa: PLW0108
    atheris.Setup([sys.argv[0], *arguments, *fixed], bounded(check), **more)
    atheris.Fuzz()


def bounded(check: Check) -> Check:
    """Return ``check`` as one that also fails where it takes longer than :data:`CPU_SECONDS`."""

    def measured(raw: bytes) -> None:
        began = time.thread_time()
        check(raw)
        used = time.thread_time() - began
        assert used < CPU_SECONDS, f"{used:.1f} s for {len(raw)} bytes"

    return measured


def _resident_mb() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") >> 20


def write(path: Path, results: list[Result], asked: float) -> None:
    """Write what is known so far as JSON."""
    import pydantic

    versions = {"python": platform.python_version(), "pydantic": pydantic.VERSION, "machine": platform.machine()}
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "asked_seconds": asked,
        "seconds": round(sum(one.seconds for one in results), 1),
        "cpu_seconds": round(sum(one.cpu_seconds for one in results), 1),
        "executions": sum(one.executions for one in results),
        "findings": sum(len(one.findings) for one in results),
        "versions": versions,
        "targets": [asdict(one) for one in results],
    }
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(document, indent=1) + "\n")
    temporary.replace(path)


def show(results: list[Result]) -> None:
    """Print the table."""
    head = ("target", "runs", "edges", "corpus", "cpu s", "findings")
    print(f"\n{head[0]:12} {head[1]:>10} {head[2]:>7} {head[3]:>7} {head[4]:>7}  {head[5]}")
    for one in results:
        found = ", ".join(one.findings) or "-"
        print(
            f"{one.target:12} {one.executions:>10} {one.edges:>7} {one.corpus:>7} {one.cpu_seconds:>7.0f}  {found}"
            + (f"  {one.trouble.splitlines()[-1]}" if one.trouble else "")
        )
    print(f"{'':12} {sum(one.executions for one in results):>10} runs in "
          f"{sum(one.cpu_seconds for one in results):.0f} s of the processor")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
