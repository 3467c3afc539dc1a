"""What each sealed file is: manifest, model, golden vector or other; and who may see it. Pure.

Rule 5 of the design: expected outputs never enter a process that has seen the model. The file list
of a job is the sealed inventory minus vector files and ``bundle.toml``; conventional names of
vectors are left out even where no pattern declares them; evidence can only shrink the list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from acceptd.evidence import Facts, Sealed
from acceptd.judge.finding import Finding
from acceptd.judge.golden_sets import SetFiles as SetFiles
from acceptd.judge.golden_sets import Side as Side
from acceptd.judge.golden_sets import find, is_conventional, smoke_directories
from acceptd.judge.golden_sets import is_output as is_output
from acceptd.judge.golden_sets import named_sets as named_sets
from acceptd.judge.words import make
from acceptd.policy.manifest import Manifest, ModelSpec

MANIFEST_FILE: Final = "bundle.toml"
SIGNATURE_FILE: Final = "model.sig"
"""An OpenSSF model signature over all other files. No lock can name it, and no model may read it."""
ABOUT: Final = (MANIFEST_FILE, SIGNATURE_FILE)
TOLERANCE_FILES: Final = ("data.json", "config.txt")
"""Tolerances beside the model: of the backend-test layout, and of onnx_test_runner."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The sealed files by what they are. Each path is in exactly one of the first four lists."""

    manifest: tuple[str, ...]
    """``bundle.toml``, and a model signature: written about the bundle, for no model to read."""
    models: tuple[str, ...]
    vectors: tuple[str, ...]
    others: tuple[str, ...]
    sets: tuple[SetFiles, ...]
    smoke: tuple[str, ...]
    """Directories and sets with inputs but no expected output: they compare nothing, count as no golden."""
    empty_patterns: tuple[tuple[str, str], ...]
    """(model, pattern) that matched nothing."""
    overlaps: tuple[str, ...]
    """Model files and ``bundle.toml`` that a vector pattern also covers."""
    tolerance_files: tuple[str, ...]
    """Those of TOLERANCE_FILES that are there."""
    unlabelled: tuple[SetFiles, ...]
    """Sets whose files of labels or slices are not there."""

    @property
    def forbidden(self) -> tuple[str, ...]:
        """Paths that no tensor's external data may name: vectors, manifest, models."""
        return tuple(sorted((*self.vectors, *self.manifest, *self.models), key=_bytes))

    def visible(self, model_file: str) -> tuple[str, ...]:
        """Return what a job for one model may see at most: the model and the files that are nothing else."""
        return tuple(sorted((*(path for path in self.models if path == model_file), *self.others), key=_bytes))

    def vector_files(self, side: Side | None = None) -> tuple[str, ...]:
        """Return what the ``vectors`` job may see: the files of the sets, and tolerances; or those of one side.

        Where inputs and expected values are decoded apart, a file that holds both is for neither.
        """
        sets = self.sets if side is None else [one.side(side) for one in self.sets if not one.legacy]
        named = {path for one in sets for path in one.paths} & set(self.vectors)
        if side == "inputs":
            return tuple(sorted(named, key=_bytes))
        return tuple(sorted(named | set(self.tolerance_files if self.sets else ()), key=_bytes))


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogatepass")


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
    found = find(paths, manifest, models)
    protected = {*models, *ABOUT} & present
    overlaps = found.covered & protected
    conventional = {path for path in paths if is_conventional(path)}
    named = {path for one in found.sets for path in one.paths} & present
    vectors = (found.covered | conventional | named) - protected
    # Whoever writes a manifest declares tolerances there, and config.txt may be any asset.
    wanted = TOLERANCE_FILES if manifest is None or not manifest.declared else TOLERANCE_FILES[:1]
    smoke = smoke_directories(paths) | {one.name for one in found.sets if one.smoke}
    return Inventory(
        manifest=tuple(path for path in paths if path in ABOUT),
        models=models,
        vectors=tuple(path for path in paths if path in vectors),
        others=tuple(path for path in paths if path not in vectors and path not in protected),
        sets=found.sets,
        smoke=tuple(sorted(smoke, key=_bytes)),
        empty_patterns=found.empty,
        overlaps=tuple(sorted(overlaps)),
        tolerance_files=tuple(path for path in wanted if path in present),
        unlabelled=tuple(
            one for one in found.sets if not {path for path in (one.labels, one.slices) if path} <= vectors
        ),
    )


def vectors_spec(inventory: Inventory, manifest: Manifest, side: Side | None = None) -> dict[str, Any]:
    """Return the ``vectors`` job's order: sets, the declared types by model, and files of tolerances.

    With ``side``, the order for inputs, or for all else, alone.
    """
    types = {
        model.name: {
            "inputs": [{"name": v.name, "kind": v.type, "dtype": v.dtype} for v in model.inputs],
            "outputs": [{"name": v.name, "kind": v.type, "dtype": v.dtype} for v in model.outputs],
        }
        for model in manifest.models
    }
    readable = frozenset(inventory.vectors)
    tolerances = {path.replace(".", "_"): path for path in inventory.tolerance_files}
    if side is None:
        return {"sets": [one.spec(readable) for one in inventory.sets], "types": types} | tolerances
    # A smoke set without labels has nothing for the job that decodes what is expected.
    apart = [one for one in inventory.sets if not one.legacy and (side == "inputs" or one.labels or not one.smoke)]
    order = {"sets": [one.side(side).spec(readable) for one in apart], "types": types, "side": side}
    return order if side == "inputs" else order | tolerances


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
        if file.path in ABOUT:
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
