"""What each sealed file is: manifest, model, golden vector or other; and who may see it. Pure.

Rule 5 of the design: expected outputs never enter a process that has seen the model. The file list
of a job is the sealed inventory minus vector files and ``bundle.toml``; conventional names of
vectors are left out even where no pattern declares them; evidence can only shrink the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from acceptd.evidence import Facts, Sealed
from acceptd.judge.finding import Finding
from acceptd.judge.words import make
from acceptd.policy.manifest import Manifest, ModelSpec

MANIFEST_FILE: Final = "bundle.toml"
CONVENTIONAL_DIRECTORY: Final = "test_data_set_*"
CONVENTIONAL_FILES: Final = ("test_data_*.npz", "inputs.npz", "outputs.npz")

MAX_WILDCARDS: Final = 256

_NUMBERED: Final = re.compile(r"(input|output)_([0-9]{1,6})\.pb", re.ASCII)


@dataclass(frozen=True, slots=True)
class SetFiles:
    """One golden set of one model: numbered ``.pb`` files of a directory, or one or two ``.npz`` files.

    For the Model Zoo's legacy ``test_data_N.npz`` (arrays ``inputs`` and ``outputs``) both are one file.
    """

    model: str
    name: str
    format: str
    files: tuple[str, ...] = ()
    inputs: str = ""
    outputs: str = ""

    def spec(self) -> dict[str, Any]:
        """Return the set as the ``vectors`` job's order names it."""
        head = {"model": self.model, "name": self.name, "format": self.format}
        if self.format == "onnx":
            return head | {"files": list(self.files)}
        return head | {"inputs": self.inputs, "outputs": self.outputs}


@dataclass(frozen=True, slots=True)
class Inventory:
    """The sealed files by what they are. Each path is in exactly one of the first four lists."""

    manifest: tuple[str, ...]
    models: tuple[str, ...]
    vectors: tuple[str, ...]
    others: tuple[str, ...]
    sets: tuple[SetFiles, ...]
    smoke: tuple[str, ...]
    """Vector directories with inputs but no expected output: they compare nothing, count as no golden."""
    empty_patterns: tuple[tuple[str, str], ...]
    """(model, pattern) that matched nothing."""
    overlaps: tuple[str, ...]
    """Model files and ``bundle.toml`` that a vector pattern also covers."""
    data_json: str | None
    """``data.json`` beside the model (tolerances of the backend-test layout)."""

    @property
    def forbidden(self) -> tuple[str, ...]:
        """Paths that no tensor's external data may name: vectors, manifest, models."""
        return tuple(sorted((*self.vectors, *self.manifest, *self.models), key=_bytes))

    def visible(self, model_file: str) -> tuple[str, ...]:
        """Return what a job for one model may see at most: the model and the files that are nothing else."""
        return tuple(sorted((*(path for path in self.models if path == model_file), *self.others), key=_bytes))

    def vector_files(self) -> tuple[str, ...]:
        """Return what the ``vectors`` job may see: the files of the sets and ``data.json``."""
        named = {path for one in self.sets for path in (*one.files, one.inputs, one.outputs) if path}
        if self.data_json is not None:
            named.add(self.data_json)
        return tuple(sorted(named, key=_bytes))


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogatepass")


def is_output(path: str) -> bool:
    """Say whether a file of a golden set holds an expected value (``output_0.pb``)."""
    match = _NUMBERED.fullmatch(path.rpartition("/")[2])
    return match is not None and match[1] == "output"


def model_paths(sealed: Sealed, manifest: Manifest | None) -> tuple[str, ...]:
    """Return the model files: what the manifest names, else ``model.onnx``, else all top-level ``.onnx``."""
    paths = [file.path for file in sealed.files]
    if manifest is not None:
        declared = {model.file for model in manifest.inspected}
        return tuple(path for path in paths if path in declared)
    if "model.onnx" in paths:
        return ("model.onnx",)
    return tuple(path for path in paths if "/" not in path and path.endswith(".onnx"))


def take(sealed: Sealed, manifest: Manifest | None) -> Inventory:
    """Sort the sealed files. ``manifest`` None stands for the backend-test layout."""
    paths = tuple(file.path for file in sealed.files)
    present = frozenset(paths)
    models = model_paths(sealed, manifest)
    tree = _Tree(paths)
    sets: dict[SetFiles, None] = {}
    empty: list[tuple[str, str]] = []
    covered: set[str] = set()
    for name, pattern in _patterns(manifest, models):
        matched = tree.match(pattern)
        covered |= matched
        found = _sets(name, pattern, matched, present)
        sets |= dict.fromkeys(found)
        if manifest is not None and not found:
            empty.append((name, pattern))
    protected = {*models, MANIFEST_FILE} & present
    overlaps = covered & protected
    conventional = {path for path in paths if is_conventional(path)}
    named = {path for one in sets for path in (*one.files, one.inputs, one.outputs) if path}
    vectors = (covered | conventional | named) - protected
    return Inventory(
        manifest=tuple(path for path in paths if path == MANIFEST_FILE),
        models=models,
        vectors=tuple(path for path in paths if path in vectors),
        others=tuple(path for path in paths if path not in vectors and path not in protected),
        sets=tuple(sets),
        smoke=_smoke(paths),
        empty_patterns=tuple(empty),
        overlaps=tuple(sorted(overlaps)),
        data_json="data.json" if "data.json" in present else None,
    )


def named_sets(model: str, patterns: Iterable[str], paths: Sequence[str]) -> list[SetFiles]:
    """Return the golden sets that ``patterns`` name among ``paths``, each once, as those of ``model``."""
    tree, present = _Tree(paths), frozenset(paths)
    found: dict[SetFiles, None] = {}
    for pattern in patterns:
        found |= dict.fromkeys(_sets(model, pattern, tree.match(pattern), present))
    return list(found)


def _patterns(manifest: Manifest | None, models: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield (model name, pattern). Without a manifest: the backend-test layout of a single model."""
    if manifest is None:
        if len(models) == 1:
            yield from (("main", pattern) for pattern in (CONVENTIONAL_DIRECTORY, *CONVENTIONAL_FILES[:2]))
        return
    for model in manifest.models:
        patterns = [pattern for vectors in model.vectors for pattern in vectors.sets]
        if not manifest.declared and not patterns and len(manifest.models) == 1:
            patterns = [CONVENTIONAL_DIRECTORY, *CONVENTIONAL_FILES[:2]]
        for pattern in patterns:
            yield model.name, pattern


def is_conventional(path: str) -> bool:
    """Say whether a path is a golden vector by convention, whatever the manifest says. Case is ignored."""
    *directories, name = path.lower().split("/")
    return any(fnmatchcase(part, CONVENTIONAL_DIRECTORY) for part in directories) or any(
        fnmatchcase(name, pattern) for pattern in CONVENTIONAL_FILES
    )


class _Tree:
    """Patterns against paths, with bounded work: a hostile manifest may carry thousands of patterns."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._parts = [(path, path.split("/")) for path in paths]
        self._below: dict[str, list[str]] = {}
        for path, parts in self._parts:
            for depth in range(1, len(parts) + 1):
                self._below.setdefault("/".join(parts[:depth]), []).append(path)
        self._wildcards = 0

    def match(self, pattern: str) -> set[str]:
        """Return the paths that the pattern names, and all below a directory that it names.

        ``*``, ``?`` and ``[]`` match within one part of a path, never across ``/``. Beyond
        MAX_WILDCARDS patterns with one of these in them, further ones match nothing.
        """
        matched = set(self._below.get(pattern, ()))
        if not any(char in pattern for char in "*?["):
            return matched
        self._wildcards += 1
        if self._wildcards > MAX_WILDCARDS:
            return matched
        wanted = pattern.split("/")
        for path, parts in self._parts:
            if len(parts) >= len(wanted) and all(map(fnmatchcase, parts, wanted)):
                matched.add(path)
        return matched


def _sets(model: str, pattern: str, matched: set[str], present: frozenset[str]) -> list[SetFiles]:
    depth = pattern.count("/") + 1
    directories: dict[str, list[str]] = {}
    found: list[SetFiles] = []
    for path in sorted(matched, key=_bytes):
        parts = path.split("/")
        if len(parts) > depth:
            if len(parts) == depth + 1:
                directories.setdefault("/".join(parts[:depth]), []).append(path)
        elif path.endswith(".npz"):
            found += _npz(model, path, present)
    for directory in sorted(directories, key=_numeric):
        found += _directory(model, directory, directories[directory], present)
    return found


def _directory(model: str, directory: str, files: list[str], present: frozenset[str]) -> list[SetFiles]:
    numbered = [(match, path) for path in files if (match := _NUMBERED.fullmatch(path.rpartition("/")[2]))]
    if any(match[1] == "output" for match, _ in numbered):
        ordered = sorted(numbered, key=lambda item: (item[0][1], int(item[0][2]), item[1]))
        return [SetFiles(model, directory, "onnx", files=tuple(path for _, path in ordered))]
    sets = []
    for path in files:
        if path.endswith(".npz"):
            sets += _npz(model, path, present, name=directory if path.endswith("/inputs.npz") else None)
    return sets


def _npz(model: str, path: str, present: frozenset[str], name: str | None = None) -> list[SetFiles]:
    head, slash, file = path.rpartition("/")
    if fnmatchcase(file, "test_data_*.npz"):
        return [SetFiles(model, path, "npz", inputs=path, outputs=path)]
    if "inputs" in file:
        partner = head + slash + file.replace("inputs", "outputs")
        if partner in present:
            return [SetFiles(model, name or path, "npz", inputs=path, outputs=partner)]
    return []


def _numeric(path: str) -> tuple[tuple[int, str], ...]:
    """Order ``test_data_set_2`` before ``test_data_set_10``."""
    pieces = re.split(r"([0-9]{1,18})", path)
    return tuple((int(piece), "") if index % 2 else (0, piece) for index, piece in enumerate(pieces))


def _smoke(paths: Sequence[str]) -> tuple[str, ...]:
    seen: dict[str, set[str]] = {}
    for path in paths:
        head, _, file = path.rpartition("/")
        match = _NUMBERED.fullmatch(file)
        if match and head:
            seen.setdefault(head, set()).add(match[1])
        elif head and file in {"inputs.npz", "outputs.npz"}:
            seen.setdefault(head, set()).add(file.removesuffix("s.npz"))
    return tuple(sorted((head for head, kinds in seen.items() if kinds == {"input"}), key=_bytes))


def vectors_spec(inventory: Inventory, manifest: Manifest) -> dict[str, Any]:
    """Return the ``vectors`` job's order: sets, the declared types by model, and ``data.json``."""
    types = {
        model.name: {
            "inputs": [{"name": v.name, "kind": v.type, "dtype": v.dtype} for v in model.inputs],
            "outputs": [{"name": v.name, "kind": v.type, "dtype": v.dtype} for v in model.outputs],
        }
        for model in manifest.models
    }
    return {"sets": [one.spec() for one in inventory.sets], "types": types, "data_json": inventory.data_json}


def run_files(inventory: Inventory, model: ModelSpec, facts: Facts) -> tuple[list[str], list[str]]:
    """Return (all files of a run job, external data files): the visible ones that the facts name.

    Hostile facts can only shrink the list: what is not visible anyway never enters it.
    """
    directory = model.file.rpartition("/")[0]
    named = {f"{directory}/{one.location}" if directory else one.location for one in facts.external}
    named |= {_normal(path) for path in named}
    external = [path for path in inventory.others if path in named]
    return sorted([path for path in inventory.models if path == model.file] + external, key=_bytes), external


def _normal(path: str) -> str:
    """Return a relative path without ``.`` parts; other paths as they are (they match nothing)."""
    return (
        "/".join(part for part in path.split("/") if part not in {"", "."}) if not path.startswith("/") else path
    )


def check_lock(sealed: Sealed, manifest: Manifest) -> list[Finding]:
    """Hold the manifest's ``[files]`` against the sealed inventory, in both directions."""
    if manifest.files is None:
        return []
    findings = []
    for file in sealed.files:
        locked = manifest.files.get(file.path)
        if file.path == MANIFEST_FILE:
            continue
        if locked is None:
            findings.append(
                make("manifest/not-in-lock", "manifest", file.path, "the lock does not name this file")
            )
        elif (locked.size, locked.sha256) != (file.size, file.sha256):
            what = "size" if locked.size != file.size else "SHA-256"
            findings.append(
                make(
                    "manifest/lock-mismatch",
                    "manifest",
                    file.path,
                    f"another {what} than the lock says",
                    {"sealed": {"size": file.size, "sha256": file.sha256}, "lock": locked.model_dump()},
                )
            )
    present = {file.path for file in sealed.files}
    for path in sorted(manifest.files):
        if path not in present:
            findings.append(
                make("manifest/lock-missing-file", "manifest", path, "the lock names a file that is not there")
            )
    return findings
