"""Ask every tool about every hostile bundle and about good models: ``python -m bench.hostile.run``.

Each question is one cold process in bounds of its own (``bench/hostile/bounded.py``). Answers are kept in
``.cache/hostile/answers.jsonl`` as they come, so that a run which was broken off goes on; ``--fresh`` begins anew.
At the end they go into ``bench/hostile_report.json``, of which ``tools/gen_hostile_report.py`` makes the page.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.hostile import members as m
from bench.hostile.bounded import Bounds, run, without_network
from bench.hostile.tools import ALL, ROOT, TOOLS, WHY_NOT, Asked, Tool, cleaned, judged

CACHE: Final = ROOT / ".cache" / "hostile"
ANSWERS: Final = CACHE / "answers.jsonl"
REPORT: Final = ROOT / "bench" / "hostile_report.json"
BACKEND: Final = ROOT / ".cache" / "backend"
CORPUS: Final = ROOT / ".cache" / "corpus" / "bundles"


def environment(home: Path) -> dict[str, str]:
    """Return a child's whole environment: no telemetry, one thread for numpy, a home of its own."""
    return {
        "PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8",
        "ORT_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1",
        "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "200",
    }  # fmt: skip


def state(place: Path) -> Path:
    """Return a state directory whose policies have the example's contract in force, as an acceptor would."""
    policies = place / "policies"
    shutil.copytree(ROOT / "policies", policies)
    contract = policies / "contracts" / "mosaic" / "evidence-disposition.toml"
    shutil.copyfile(contract.with_name(contract.name + ".example"), contract)
    made = place / "state"
    made.mkdir(mode=0o700)
    (made / "acceptd.toml").write_text(f'policies = "{policies}"\n')
    return made


def ask(tool: Tool, asked: Asked, scratch: Path) -> dict[str, Any]:
    """Ask one tool once and return its row."""
    if asked.member.part and asked.member.part not in tool.parts:
        return {"outcome": "not applicable", "said": WHY_NOT[asked.member.part]}
    asked.report.unlink(missing_ok=True)
    ended = run(tool.command(tool.place, asked), tool.bounds, scratch, environment(scratch))
    answer = judged(tool, ended, asked)
    return {
        "outcome": answer.outcome,
        "said": cleaned(answer.said, asked.bundle.parent, scratch, asked.report.parent, asked.state.parent),
        "warnings": [cleaned(one, asked.bundle.parent) for one in answer.warnings],
        "seconds": round(ended.seconds, 2),
        "cpu_seconds": round(ended.cpu_seconds, 2),
        "peak_mib": ended.peak_bytes >> 20,
    }


def version(tool: Tool) -> str:
    """Return the version of a tool's package, as installed."""
    asked = [
        str(tool.place / "python"),
        "-c",
        f"from importlib.metadata import version as v; print(v({tool.package!r}))",
    ]
    if not tool.environment:
        asked = [str(tool.place / "python"), "-c", "import acceptd; print(acceptd.__version__)"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{tool.name}: not installed in {tool.environment}; make hostile-report installs it")
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """Return what it was measured on."""
    words = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": words[0].partition(": ")[2] if words else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
        "user": "root" if os.geteuid() == 0 else "an ordinary user",
        "load": round(os.getloadavg()[2], 1),
        "network": "taken away by a network namespace" if without_network() else "could not be taken away",
    }


def bounds(one: Bounds) -> dict[str, Any]:
    """Return bounds as the report has them."""
    return {
        "wall_seconds": one.wall_seconds, "cpu_seconds": one.cpu_seconds,
        "memory_mib": one.memory_bytes and one.memory_bytes >> 20, "file_mib": one.file_bytes >> 20,
    }  # fmt: skip


class Kept:
    """The answers so far, in a file of lines."""

    def __init__(self, file: Path, *, fresh: bool) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            file.unlink(missing_ok=True)
        self._rows: dict[tuple[str, str], dict[str, Any]] = {}
        for line in file.read_text().splitlines() if file.is_file() else []:
            with suppress(ValueError):  # the last one of a run that was killed
                row = json.loads(line)
                self._rows[row["member"], row["tool"]] = row["answer"]

    def get(self, member: str, tool: str) -> dict[str, Any] | None:
        """Return an answer that is there already."""
        return self._rows.get((member, tool))

    def add(self, member: str, tool: str, answer: dict[str, Any]) -> None:
        """Keep one more."""
        self._rows[member, tool] = answer
        with self._file.open("a") as file:
            file.write("\n" + json.dumps({"member": member, "tool": tool, "answer": answer}))


def questions(member: m.Member, kept: Kept, keys: dict[str, str], place: Path, acceptor: Path) -> dict[str, Any]:
    """Ask every tool about one member; the member is written, and removed again, only where one is to be asked.

    ``keys`` are tools with their versions: an answer of another version counts for nothing.
    """
    answers: dict[str, Any] = {}
    open_ones = [tool for tool in TOOLS if kept.get(member.name, keys[tool.name]) is None]
    if open_ones:
        with TemporaryDirectory(dir=place) as name:
            scratch = Path(name)
            scratch.chmod(0o755)
            (scratch / "drop").mkdir()
            (scratch / "work").mkdir()
            bundle = m.quiet(member.write, scratch / "drop" / "bundle")
            feeds = m.feeds(bundle, scratch) if bundle.is_dir() else []
            asked = Asked(member, bundle, tuple(feeds), scratch / "report.json", acceptor)
            for tool in open_ones:
                kept.add(member.name, keys[tool.name], ask(tool, asked, scratch / "work"))
    for tool in TOOLS:
        found = kept.get(member.name, keys[tool.name])
        assert found is not None
        answers[tool.name] = dict(found)
    return answers


def rows(
    members: list[m.Member], kept: Kept, keys: dict[str, str], place: Path, acceptor: Path
) -> list[dict[str, Any]]:
    """Return a row for each member and print what each tool made of it.

    A warning that a tool gives of the honest example too says nothing about a member made of it.
    """
    made = []
    honest = questions(m.EXAMPLE, kept, keys, place, acceptor)
    for number, member in enumerate(members, 1):
        answers = questions(member, kept, keys, place, acceptor)
        for tool in answers:
            answer = answers[tool]
            usual = set(honest[tool].get("warnings", ()))
            new = [one for one in answer.pop("warnings", ()) if one not in usual]
            if member.part and answer["outcome"] == "warned":
                answer.update({"said": new[0]} if new else {"outcome": "missed", "said": ""})
        row: dict[str, Any] = {
            "name": member.name,
            "family": member.family,
            "part": member.part,
            "answers": answers,
        }
        if member.codes:
            said = answers["acceptd"]["said"].partition(": ")[2].split(", ")
            row["named"] = bool(set(said) & set(member.codes))
        made.append(row)
        told = " ".join(f"{tool}={answer['outcome'][:4]}" for tool, answer in answers.items())
        print(f"{number}/{len(members)} {member.name}: {told}", flush=True)
    return made


def main(arguments: list[str] | None = None) -> int:
    """Ask, and write the report; with names, ask about those alone and write nothing."""
    parser = argparse.ArgumentParser(description="The hostile catalogue against acceptd and its peers.")
    parser.add_argument("names", nargs="*", metavar="MEMBER", help="only these, asked anew; no report is written")
    parser.add_argument("--fresh", action="store_true", help="forget the answers of a run before")
    given = parser.parse_args(arguments)
    versions = {tool.name: version(tool) for tool in TOOLS}
    keys = {name: f"{name} {found}" for name, found in versions.items()}
    hostile, good = m.hostile(), list(m.good(BACKEND, CORPUS))
    with TemporaryDirectory(prefix="acceptd-hostile-") as name:
        place = Path(name)
        place.chmod(0o755)
        acceptor = state(place)
        if given.names:
            chosen = [one for one in (*hostile, *good) if one.name in given.names]
            kept = Kept(place / "answers.jsonl", fresh=True)
            print(json.dumps(rows(chosen, kept, keys, place, acceptor), indent=1))
            return 0
        kept = Kept(ANSWERS, fresh=given.fresh)
        report = {
            "measured": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "machine": machine(),
            "tools": [
                {
                    "name": tool.name, "title": tool.title,
                    "package": tool.package, "version": versions[tool.name],
                    "flags": tool.shown, "parts": sorted(tool.parts & ALL), "bounds": bounds(tool.bounds),
                }
                for tool in TOOLS
            ],
            "hostile": rows(hostile, kept, keys, place, acceptor),
            "good": rows(good, kept, keys, place, acceptor),
        }  # fmt: skip
    REPORT.write_text(json.dumps(report, indent=1, ensure_ascii=True) + "\n")
    print(
        f"{REPORT.relative_to(ROOT)}: {len(report['hostile'])} hostile members, {len(report['good'])} good models"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
