"""Golden sets by the names of their files: which there are, what each holds, where its values come from. Pure.

Layouts: numbered ``.pb`` files of a directory (ONNX backend test, onnx_test_runner), pairs of ``.npz`` files,
and the Model Zoo's single ``test_data_N.npz``. Inputs without expected outputs are a smoke set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from acceptd.policy.golden import UNDECLARED, VectorsSpec
from acceptd.policy.manifest import Manifest, ModelSpec, OutputSpec

CONVENTIONAL_DIRECTORY: Final = "test_data_set_*"
CONVENTIONAL_FILES: Final = ("test_data_*.npz", "inputs.npz", "outputs.npz")
MAX_WILDCARDS: Final = 256

_NUMBERED: Final = re.compile(r"(input|output)_([0-9]{1,6})\.pb", re.ASCII)
_RUNTIME: Final = re.compile(r"onnx[ _-]?runtime|\bort\b", re.IGNORECASE)

Side = Literal["inputs", "outputs"]
Evidence = Literal["parity", "regression", "undeclared"]
"""What a set can show at best, by its origin."""


def shown_by(origin: str) -> Evidence:
    """Return what expected values of this origin show. Those that onnxruntime made itself show no parity."""
    if origin.strip().lower() in {"", UNDECLARED}:
        return "undeclared"
    return "regression" if _RUNTIME.search(origin) else "parity"


@dataclass(frozen=True, slots=True)
class SetFiles:
    """One golden set of one model: numbered ``.pb`` files of a directory, or one or two ``.npz`` files.

    For the Model Zoo's legacy ``test_data_N.npz`` (arrays ``inputs`` and ``outputs``) both are one file.
    ``labels`` and ``slices`` are paths that the manifest names, whether they are there or not.
    """

    model: str
    name: str
    format: str
    files: tuple[str, ...] = ()
    inputs: str = ""
    outputs: str = ""
    smoke: bool = False
    """It has inputs and no expected output: it is run, and compared with nothing."""
    origin: str = UNDECLARED
    labels: str = ""
    slices: str = ""
    labelled_output: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """All files that the set is read from."""
        named = (self.inputs, self.outputs, self.labels, self.slices)
        return tuple(dict.fromkeys(path for path in (*self.files, *named) if path))

    def side(self, side: Side) -> SetFiles:
        """Return the set as a job may know it that decodes its inputs, or what is expected, alone."""
        if side == "inputs":
            own = tuple(path for path in self.files if not is_output(path))
            return replace(self, files=own, outputs="", labels="", slices="")
        return replace(self, files=tuple(path for path in self.files if is_output(path)), inputs="")

    @property
    def legacy(self) -> bool:
        """Whether inputs and outputs are arrays of one file: only its reader can tell whether it has both."""
        return bool(self.inputs) and self.inputs == self.outputs

    def spec(self, present: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Return the set as the ``vectors`` job's order names it, with labels that are among ``present``."""
        head: dict[str, Any] = {"model": self.model, "name": self.name, "format": self.format}
        head |= {"smoke": True} if self.smoke else {}
        head |= {key: path for key, path in (("labels", self.labels), ("slices", self.slices)) if path in present}
        if self.format == "onnx":
            return head | {"files": list(self.files)}
        return head | {"inputs": self.inputs, "outputs": self.outputs}


def labelled_output(files: SetFiles, model: ModelSpec) -> OutputSpec | None:
    """Return the output that a set's labels are about: the one that is named, else the only one with classes."""
    if not files.labels:
        return None
    if files.labelled_output:
        return next((one for one in model.outputs if one.name == files.labelled_output), None)
    ranked = [one for one in model.outputs if one.kind in {"logits", "probabilities"}]
    return ranked[0] if len(ranked) == 1 else None


def is_output(path: str) -> bool:
    """Say whether a file of a golden set holds an expected value (``output_0.pb``)."""
    match = _NUMBERED.fullmatch(path.rpartition("/")[2])
    return match is not None and match[1] == "output"


def is_conventional(path: str) -> bool:
    """Say whether a path is a golden vector by convention, whatever the manifest says. Case is ignored."""
    *directories, name = path.lower().split("/")
    return any(fnmatchcase(part, CONVENTIONAL_DIRECTORY) for part in directories) or any(
        fnmatchcase(name, pattern) for pattern in CONVENTIONAL_FILES
    )


@dataclass(frozen=True, slots=True)
class Found:
    """What the patterns of a manifest, or of convention, match."""

    sets: tuple[SetFiles, ...]
    covered: frozenset[str]
    """Every file that a pattern names, whether a set is read from it or not."""
    empty: tuple[tuple[str, str], ...]
    """(model, pattern) that matched no set."""


def find(paths: Sequence[str], manifest: Manifest | None, models: Sequence[str]) -> Found:
    """Return the golden sets among ``paths``. ``manifest`` None stands for the layouts of convention.

    A set that several patterns name is there once, with the weakest of their origins.
    """
    present = frozenset(paths)
    tree = _Tree(paths)
    sets: dict[tuple[str, str], SetFiles] = {}
    covered: set[str] = set()
    empty: list[tuple[str, str]] = []
    for model, pattern, spec in _patterns(paths, manifest, models):
        matched = tree.match(pattern)
        covered |= matched
        found = _sets(model, pattern, matched, present)
        for one in found:
            given = _about(one, spec)
            before = sets.get((model, one.name))
            if before is not None and _strength(before.origin) < _strength(given.origin):
                given = replace(given, origin=before.origin)
            sets[model, one.name] = given
        if spec is not None and not found:  # of convention nobody said that there is one
            empty.append((model, pattern))
    return Found(tuple(sets.values()), frozenset(covered), tuple(empty))


def named_sets(model: str, patterns: Iterable[str], paths: Sequence[str]) -> list[SetFiles]:
    """Return the sets of ``model`` with expected values that ``patterns`` name among ``paths``, each once."""
    tree, present = _Tree(paths), frozenset(paths)
    found: dict[SetFiles, None] = {}
    for pattern in patterns:
        found |= dict.fromkeys(_sets(model, pattern, tree.match(pattern), present))
    return [one for one in found if not one.smoke]


def _strength(origin: str) -> int:
    return ("regression", "undeclared", "parity").index(shown_by(origin))


def _about(one: SetFiles, spec: VectorsSpec | None) -> SetFiles:
    if spec is None:
        return one
    beside = one.name if one.name not in {one.inputs, *one.files} else one.inputs.rpartition("/")[0]
    head = f"{beside}/" if beside else ""
    return replace(
        one,
        origin=spec.origin,
        labels=f"{head}{spec.labels}" if spec.labels else "",
        slices=f"{head}{spec.slices}" if spec.slices else "",
        labelled_output=spec.labelled_output or "",
    )


def _patterns(
    paths: Sequence[str], manifest: Manifest | None, models: Sequence[str]
) -> Iterable[tuple[str, str, VectorsSpec | None]]:
    """Yield (model name, pattern, who declared it). Without a manifest: the layouts of a single model."""
    if manifest is None:
        if len(models) == 1:
            yield from (("main", pattern, None) for pattern in _conventional(paths))
        return
    for model in manifest.models:
        given = [(pattern, spec) for spec in model.vectors for pattern in spec.sets]
        if not manifest.declared and not given and len(manifest.models) == 1:
            yield from ((model.name, pattern, None) for pattern in _conventional(paths))
        for pattern, spec in given:
            yield model.name, pattern, spec


def _conventional(paths: Sequence[str]) -> list[str]:
    """Patterns of a case without a manifest: onnx_test_runner takes every directory that holds a data set."""
    parts = (path.split("/") for path in paths)
    own = {part[0] for part in parts if len(part) == 2 and _NUMBERED.fullmatch(part[1])}
    other = sorted((name for name in own if not fnmatchcase(name, CONVENTIONAL_DIRECTORY)), key=_bytes)
    literal = [name for name in other if not any(char in name for char in "*?[")][:MAX_WILDCARDS]
    return [CONVENTIONAL_DIRECTORY, *CONVENTIONAL_FILES[:2], *literal]


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogatepass")


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
    archives = [path for path in files if path.endswith(".npz")]
    sides = {match[1] for match, _ in numbered}
    if "output" in sides or (sides and not archives):
        ordered = sorted(numbered, key=lambda item: (item[0][1], int(item[0][2]), item[1]))
        paths = tuple(path for _, path in ordered)
        return [SetFiles(model, directory, "onnx", files=paths, smoke="output" not in sides)]
    sets = []
    for path in archives:
        sets += _npz(model, path, present, name=directory if path.endswith("/inputs.npz") else None)
    return sets


def _npz(model: str, path: str, present: frozenset[str], name: str | None = None) -> list[SetFiles]:
    head, slash, file = path.rpartition("/")
    if fnmatchcase(file, "test_data_*.npz"):
        return [SetFiles(model, path, "npz", inputs=path, outputs=path)]
    if "inputs" not in file:
        alone = "outputs" in file and head + slash + file.replace("outputs", "inputs") not in present
        whole = head if file == "outputs.npz" and head else path
        return [SetFiles(model, whole, "npz", outputs=path)] if alone else []
    partner = head + slash + file.replace("inputs", "outputs")
    there = partner in present
    return [SetFiles(model, name or path, "npz", inputs=path, outputs=partner if there else "", smoke=not there)]


def _numeric(path: str) -> tuple[tuple[int, str], ...]:
    """Order ``test_data_set_2`` before ``test_data_set_10``."""
    pieces = re.split(r"([0-9]{1,18})", path)
    return tuple((int(piece), "") if index % 2 else (0, piece) for index, piece in enumerate(pieces))


def smoke_directories(paths: Sequence[str]) -> set[str]:
    """Return the directories that hold inputs and no expected output, whether a pattern names them or not."""
    seen: dict[str, set[str]] = {}
    for path in paths:
        head, _, file = path.rpartition("/")
        match = _NUMBERED.fullmatch(file)
        if match and head:
            seen.setdefault(head, set()).add(match[1])
        elif head and file in {"inputs.npz", "outputs.npz"}:
            seen.setdefault(head, set()).add(file.removesuffix("s.npz"))
    return {head for head, kinds in seen.items() if kinds == {"input"}}
