"""Mutation testing of a package that decides: ``python -m tools.mutation judge`` (``make mutation``), by mutmut.

mutmut changes one expression at a time and runs the tests that came through the changed function; a change that
no test notices has survived. It works on a copy below .cache/mutation, and forks each mutant from a process
that has every test loaded. A package has more mutants than an afternoon has seconds, so a sample is drawn by
seed: of named files, some or all, from each in turn, the same for everyone who draws it; and of the tests that
came through a function only the quickest are run, as many as end within some seconds. What was tried is kept
with the copy: the same command goes on where it was ended, and begins anew when a file changes. The result is
in bench/mutation.json.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
KEPT: Final = ROOT / "bench" / "mutation.json"
MUTMUT: Final = ROOT / ".venvs" / "mutation" / "bin" / "mutmut"
TESTS: Final = {
    "judge": (
        "tests/unit/test_judge_*.py",
        "tests/unit/test_agreement_attacks.py",
        "tests/unit/test_kinds_beside.py",
        "tests/unit/test_model_signature.py",
        "tests/unit/test_advisories.py",
    ),
    "record": (
        "tests/unit/test_record_*.py",
        "tests/unit/test_weak_keys.py",
        "tests/unit/test_statements.py",
        "tests/property/test_record_*.py",
    ),
    "release": (
        "tests/unit/test_release_*.py",
        "tests/unit/test_receipts.py",
        "tests/unit/test_model_signature.py",
        "tests/property/test_receipt_*.py",
        "tests/property/test_release_*.py",
        "tests/hostile/test_loader_[acmrs]*.py",
    ),
}
"""By package: tests that reach its functions in their own process, so that a mutant is seen by them."""
SOURCES: Final = frozenset({"test_judge_imports.py", "test_record_imports.py"})
"""They read the code itself, which in the copy imports what switches a mutant on."""
ENDINGS: Final = {
    0: "survived",
    5: "not reached",
    33: "not reached",
    36: "timed out",
    24: "timed out",
    -24: "timed out",
    152: "timed out",
    255: "timed out",
}
"""mutmut's exit codes; any other one is a test that failed: the mutant was noticed."""
SETTINGS: Final = """
[tool.mutmut]
source_paths = ["acceptd/{package}"]
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = ["-p", "no:cacheprovider"]
also_copy = {beside}
only_mutate = {files}
use_git_change_detection = false
timeout_constant = 4.0
timeout_multiplier = 5.0
on_dependency_change = "ignore"
"""


def drawn(names: Iterable[str], seed: int) -> list[str]:
    """Return all mutants in the order in which they are tried: one of each file in turn, by ``seed``."""
    files: dict[str, list[str]] = {}
    for name in sorted(names):
        files.setdefault(name.partition(".x")[0], []).append(name)
    for file, own in files.items():
        random.Random(f"{seed} {file}").shuffle(own)
    turns = zip_longest(*(files[file] for file in sorted(files)))
    return [name for name in chain.from_iterable(turns) if name is not None]


def ending(code: int | None) -> str:
    """Return what mutmut's exit code of one mutant means; empty where it was not tried."""
    return "" if code is None else ENDINGS.get(code, "killed")


def counted(found: Mapping[str, int | None]) -> dict[str, int]:
    """Return how many mutants there are, and of those that were tried how many ended how."""
    told = Counter(ending(code) for code in found.values())
    tried = sum(told.values()) - told[""]
    return {"mutants": len(found), "tried": tried, **{name: told[name] for name in sorted(told) if name}}


def files_of(package: str, seed: int, count: int) -> list[str]:
    """Return the files with functions that are mutated, by ``seed``; all of a package where ``count`` is 0."""
    below = ROOT / "acceptd" / package
    found = sorted(str(one.relative_to(ROOT)) for one in below.rglob("*.py") if "\ndef " in one.read_text())
    random.Random(f"{seed} files").shuffle(found)
    return sorted(found[: count or None])


def named_files(package: str, names: Iterable[str]) -> list[str]:
    """Return the files of a package by their names in it, `trust` or `catalogue/word`.

    Raises:
        FileNotFoundError: The package has no such file.
    """
    found = [f"acceptd/{package}/{name}.py" for name in sorted(set(names))]
    for path in found:
        if not (ROOT / path).is_file():
            raise FileNotFoundError(f"{path} is not there: name files as in --only trust store")
    return found


def quickest(tests: Iterable[str], took: Mapping[str, float], seconds: float) -> list[str]:
    """Return the quickest tests, as many as end within so many seconds together, and at least one of any."""
    kept: list[str] = []
    left = seconds
    for test in sorted(tests, key=lambda one: (took.get(one, 0.0), one)):
        left -= took.get(test, 0.0)
        if kept and left < 0:
            break
        kept.append(test)
    return kept


def copied_beside(paths: Iterable[str], package: str) -> list[str]:
    """Return what mutmut copies at each start: not the package itself, or its mutants would be made anew."""
    parts = [path.split("/") for path in paths if path != ".gitignore"]
    found = {"/".join(part[:2]) if part[0] == "acceptd" else part[0] for part in parts}
    return sorted(found - {f"acceptd/{package}"})


def _copied(package: str, files: Sequence[str], patterns: Sequence[str]) -> Path:
    """Return the copy of the repository that is mutated, made anew where a file of it has changed."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [path for path in listed.split("\0") if path and (ROOT / path).is_file()]
    told = hashlib.sha256(json.dumps([files, patterns]).encode())
    for path in paths:
        if path.split("/")[0] in {"acceptd", "tests", "sandbox", "policies"}:
            told.update(f"{path}\0".encode() + (ROOT / path).read_bytes())
    place = ROOT / ".cache" / "mutation" / package
    stamp = place / "acceptd-stamp"
    if stamp.is_file() and stamp.read_text() == told.hexdigest():
        return place
    shutil.rmtree(place, ignore_errors=True)
    for path in paths:
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, place / path)
    found = [one for pattern in patterns for one in place.glob(pattern) if one.name not in SOURCES]
    tests = sorted(str(one.relative_to(place)) for one in found)
    beside = copied_beside(paths, package)
    settings = SETTINGS.format(
        package=package, tests=json.dumps(tests), beside=json.dumps(beside), files=json.dumps(files)
    )
    with (place / "pyproject.toml").open("a") as file:
        file.write(settings)
    stamp.write_text(told.hexdigest())
    return place


def _results(place: Path, package: str) -> dict[str, int | None]:
    """Return mutmut's own record: exit code by mutant, None where it was not tried."""
    found: dict[str, int | None] = {}
    for path in sorted((place / "mutants" / "acceptd" / package).rglob("*.meta")):
        found |= json.loads(path.read_text())["exit_code_by_key"]
    return found


def _shortened(place: Path, seconds: float) -> None:
    """Leave to each function the quickest of the tests that came through it, in mutmut's own record of them."""
    path = place / "mutants" / "mutmut-stats.json"
    told = json.loads(path.read_text())
    reached, took = told["tests_by_mangled_function_name"], told["duration_by_test"]
    told["tests_by_mangled_function_name"] = {
        function: quickest(tests, took, seconds) for function, tests in reached.items()
    }
    path.write_text(json.dumps(told))


def _mutmut(place: Path, *words: str, seconds: float | None = None) -> None:
    """Run mutmut in the copy, until it ends or its time is over: what it has tried by then it has written."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run([MUTMUT, "run", "--max-children", "1", *words], cwd=place, check=False, timeout=seconds)


def _shown(place: Path, name: str) -> str:
    """Return a mutant's change as a diff without its head."""
    done = subprocess.run([MUTMUT, "show", name], cwd=place, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line[:1] in "+-" and line[:3] not in {"+++", "---"}]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Try a sample of the mutants of one package, and keep what came of it."""
    parser = argparse.ArgumentParser(prog="tools.mutation")
    parser.add_argument("package", choices=TESTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, default=300, help="how many mutants; 0: all")
    parser.add_argument("--files", type=int, default=0, help="of how many files, drawn by seed; 0: of all")
    parser.add_argument("--only", nargs="+", help="names of files, in place of drawn ones: trust store")
    parser.add_argument("--seconds", type=float, default=20.0, help="of tests a mutant, the quickest first")
    parser.add_argument("--tests", nargs="+", help="patterns of test files in place of the package's own")
    parser.add_argument("--minutes", type=float, default=None, help="no longer than this; the next run goes on")
    wanted = parser.parse_args(arguments)
    if wanted.only:
        files = named_files(wanted.package, wanted.only)
    else:
        files = files_of(wanted.package, wanted.seed, wanted.files)
    patterns = wanted.tests or TESTS[wanted.package]
    place = _copied(wanted.package, files, patterns)
    if not _results(place, wanted.package):
        _mutmut(place, "acceptd.none.x_none__mutmut_0")  # makes the mutants, and finds which test reaches what
        _shortened(place, wanted.seconds)
    sample = drawn(_results(place, wanted.package), wanted.seed)[: wanted.sample or None]
    before = _results(place, wanted.package)
    left = [name for name in sample if before[name] is None]
    if left:
        _mutmut(place, *left, seconds=wanted.minutes * 60 if wanted.minutes else None)
    found = _results(place, wanted.package)
    if all(code is None for code in found.values()):
        print("mutation: mutmut tried no mutant: see what it said above", file=sys.stderr)
        return 2
    kept: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    reasons = {one["name"]: one.get("reason", "") for one in kept.get(wanted.package, {}).get("survivors", [])}
    survivors = [
        {"name": name, "change": _shown(place, name), "reason": reasons.get(name, "")}
        for name in sample
        if ending(found[name]) in {"survived", "not reached", "timed out"}
    ]
    told = counted(found)
    kept[wanted.package] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seed": wanted.seed,
        "files": files,
        "tests": list(patterns),
        "seconds": wanted.seconds,
        "sample": len(sample),
        **told,
        "survivors": survivors,
    }
    KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    print(f"{wanted.package}: {told}; {len(survivors)} to look at in {KEPT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
