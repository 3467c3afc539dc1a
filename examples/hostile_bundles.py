"""Bundles that must never be accepted: whole bundles, each with exactly one fault.

``CATALOGUE`` says for each what acceptd must answer. Write one, or all, with::

    python examples/hostile_bundles.py DIR [NAME ...]
"""

from __future__ import annotations

import argparse
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples import hostile_models as models
from examples import hostile_writers as w
from examples.evidence_classifier import MODEL_ID, build_model

REJECTED: Final = frozenset({"rejected"})
HELD: Final = frozenset({"held"})
NEVER_ACCEPTED: Final = frozenset({"rejected", "held", "inconclusive"})


@dataclass(frozen=True)
class Hostile:
    """One entry: ``write`` makes the drop at (or, for an archive, beside) a path and returns what it made."""

    name: str
    family: str
    write: Callable[[Path], Path]
    codes: tuple[str, ...]
    """Finding codes, one of which names the fault."""
    verdicts: frozenset[str] = REJECTED
    slow: bool = False
    """Whether a limit of CPU time or memory ends it, not a look at the bytes."""
    inbox: bool = False
    """Whether the fault shows only in a drop that came through a team's inbox."""


def _trap(name: str, family: str, trap: Callable[[], models.Trap], *codes: str, slow: bool = False) -> Hostile:
    return Hostile(name, family, lambda path: w.write_trap(path, trap()), codes, slow=slow)


def _external(name: str, location: str, *codes: str, **entries: str) -> Hostile:
    payload = entries.pop("payload", "").encode()
    return Hostile(name, "external data", lambda path: w.write_external(path, location, payload, **entries), codes)


def _toml(name: str, text: str, *codes: str) -> Hostile:
    return Hostile(name, "manifest", lambda path: w.write_manifest(path, text), (*codes, "manifest/invalid"))


def _drift(name: str, *codes: str) -> Hostile:
    return Hostile(f"drift-{name}", "schema drift", lambda path: w.write_drift(path, name), codes)


MEMORY: Final = ("resources/memory-limit", "run/failed", "load/failed", "resources/output-limit")
TIME: Final = ("resources/cpu-limit", "resources/wall-limit")
CRASH: Final = ("run/crash", "load/crash")

CATALOGUE: Final[tuple[Hostile, ...]] = (
    _external("external-parent", "../../../../../../etc/passwd", "external-data/path-escape"),
    _external("external-absolute", "/etc/passwd", "external-data/path-escape"),
    _external("external-middle", "data/../../../etc/passwd", "external-data/path-escape"),
    _external(
        "external-url", "https://example.com/w", "external-data/remote-location", "external-data/path-escape"
    ),
    _external(
        "external-nul",
        "weights.bin\0.safe",
        "external-data/path-escape",
        "structure/unsafe-name",
        payload="w" * 48,
    ),
    _external("external-missing", "weights.bin", "external-data/missing-file"),
    _external("external-truncated", "weights.bin", "external-data/out-of-range", payload="w" * 40),
    _external("external-negative", "weights.bin", "external-data/bad-number", offset="-1", payload="w" * 64),
    _external("external-underscore", "weights.bin", "external-data/bad-number", offset="1_6", payload="w" * 64),
    _external("external-manifest", "bundle.toml", "external-data/names-forbidden-file"),
    _external("external-model", "model.onnx", "external-data/names-forbidden-file"),
    Hostile(
        "external-golden", "external data", w.write_external_names_golden, ("external-data/names-forbidden-file",)
    ),
    _external(
        "external-checksum", "weights.bin", "external-data/checksum-mismatch", checksum="0" * 40, payload="w" * 48
    ),
    _external("external-drive", "C:\\weights.bin", "external-data/remote-location"),
    Hostile("external-uncovered", "external data", w.write_uncovered, ("external-data/uncovered-bytes",), HELD),
    Hostile("payload-in-weight", "payload", w.write_payload_in_weight, ("payload/pickle",), HELD),
    Hostile("payload-beside", "payload", w.write_payload_beside, ("payload/archive",), HELD),
    _trap("allocates-at-run", "allocation", models.allocates_at_run, *MEMORY),
    _trap("allocates-in-loop", "allocation", models.allocates_in_loop, *MEMORY, slow=True),
    _trap("allocates-at-load", "allocation", models.allocates_at_load, *MEMORY, *TIME, slow=True),
    _trap("loops", "endless", models.loops, *TIME, slow=True),
    _trap("loops-by-count", "endless", models.loops_by_count, "cost/repetition"),
    _trap("loops-in-branch", "endless", models.loops_in_branch, "cost/repetition"),
    _trap("scans-nothing", "endless", models.scans_nothing, "cost/repetition"),
    _trap("einsum-ellipses", "endless", models.two_ellipses, "structure/einsum-ellipsis", *TIME),
    _trap("functions-expand", "endless", models.expanding_functions, "structure/function-expansion", *TIME),
    _trap("divides-at-load", "native crash", models.divides_at_load, "structure/division-trap"),
    Hostile("divides-at-run", "native crash", w.write_divides_at_run, CRASH),
    Hostile(
        "deep-tree",
        "native crash",
        lambda path: w.write_trap(path, models.deep_tree(), model_id=w.TRIAL_ID),
        ("structure/tree-depth", *CRASH),
    ),
    _trap(
        "unknown-operator",
        "structure",
        models.unknown_operator,
        "operator/not-listed",
        "load/unsupported-operator",
    ),
    Hostile(
        "tensor-two-values",
        "structure",
        lambda path: w.plain(path, models.rewrite(build_model(), w.double_data)),
        ("structure/tensor-two-values",),
    ),
    Hostile(
        "tensor-undefined",
        "structure",
        lambda path: w.plain(path, models.rewrite(build_model(), w.undefined_dtype)),
        ("structure/tensor-dtype",),
    ),
    Hostile(
        "wire-flood",
        "wire",
        lambda path: w.plain(path, models.flood(build_model()), model_id=w.TRIAL_ID),
        ("wire/too-many-fields", *MEMORY, *TIME),
        slow=True,
    ),
    Hostile(
        "wire-ort-mark",
        "wire",
        lambda path: w.plain(path, models.with_ort_mark(build_model())),
        ("wire/ort-format",),
    ),
    Hostile(
        "wire-trailing-zeros",
        "wire",
        lambda path: w.plain(path, build_model() + bytes(16)),
        ("wire/trailing-data",),
    ),
    Hostile(
        "wire-truncated",
        "wire",
        lambda path: w.plain(path, build_model()[:200]),
        ("wire/truncated", "wire/malformed"),
    ),
    Hostile("wire-two-models", "wire", lambda path: w.plain(path, build_model() * 2), ("wire/duplicate-field",)),
    Hostile(
        "wire-empty",
        "wire",
        lambda path: w.plain(path, b""),
        ("wire/empty", "load/empty-model", "seal/empty-file"),
    ),
    Hostile("goldens-wrong", "goldens", w.write_wrong_goldens, ("parity/mismatch",)),
    Hostile("goldens-insensitive", "goldens", w.write_insensitive, ("vectors/insensitive",), NEVER_ACCEPTED),
    Hostile("weights-nan", "goldens", w.write_weights_not_finite, ("parity/mismatch", "behaviour/non-finite")),
    Hostile("other-team", "names", w.write_other_team, ("manifest/team-mismatch",), inbox=True),
    _drift("renamed-input", "schema/input-renamed", "schema/input-names"),
    _drift("float64", "schema/dtype-changed", "schema/input-dtype"),
    _drift("float16", "schema/dtype-changed", "schema/input-dtype"),
    _drift("width-4", "schema/width-changed", "schema/output-shape"),
    _drift("extra-input", "schema/input-extra", "schema/input-names"),
    _drift("static", "schema/dimension-fixed", "schema/input-shape"),
    _drift("renamed-output", "schema/output-renamed", "schema/output-names"),
    _toml("toml-none", "[bundle\nid = ", "manifest/not-toml"),
    _toml("toml-dotted-key", ".".join(["a"] * 30_000) + " = 1\n", "manifest/too-deep"),
    _toml("toml-brackets", "{}x = " + "[" * 5_000 + "]" * 5_000 + "\n", "manifest/too-deep", "manifest/not-toml"),
    _toml("toml-huge", "# " + "x" * 70_000 + "\n{}", "manifest/too-large"),
    _toml("toml-datetime", "{}\n[dims.when]\nmin = 1979-05-27T07:32:00Z\nmax = 2\n", "manifest/datetime"),
    _toml("toml-unknown-key", "trusted = true\n{}"),
    Hostile(
        "manifest-id-parent",
        "names",
        lambda path: w.plain(path, bundle={"id": "mosaic/..", "version": w.VERSION}),
        ("manifest/invalid",),
    ),
    Hostile(
        "manifest-id-current",
        "names",
        lambda path: w.plain(path, bundle={"id": "mosaic/current", "version": w.VERSION}),
        ("manifest/invalid",),
    ),
    Hostile(
        "manifest-id-look-alike",
        "names",
        lambda path: w.plain(path, bundle={"id": MODEL_ID.replace("o", "\u043e"), "version": w.VERSION}),
        ("manifest/invalid",),
    ),
    Hostile("lock-lies", "manifest", w.write_lock_lies, ("manifest/lock-mismatch", "manifest/lock-extra")),
    Hostile("symlink-inside", "files", w.write_symlink, ("seal/symlink",)),
    Hostile("symlink-outside", "files", w.write_symlink_outside, ("seal/symlink",)),
    Hostile("hard-link", "files", w.write_hard_link, ("seal/hard-link",)),
    Hostile("fifo", "files", w.write_fifo, ("seal/not-a-file",)),
    Hostile("zip-bomb", "archive", w.write_zip_bomb, ("archive/ratio", "archive/bomb")),
    Hostile(
        "zip-traversal",
        "archive",
        lambda path: w.write_zip(path, ("../../evil.txt", b"evil")),
        ("archive/path-escape",),
    ),
    Hostile(
        "zip-absolute",
        "archive",
        lambda path: w.write_zip(path, ("/tmp/evil.txt", b"evil")),
        ("archive/path-escape",),
    ),
    Hostile(
        "zip-collision",
        "archive",
        lambda path: w.write_zip(path, ("MODEL.ONNX", b"evil")),
        ("seal/name-collision",),
    ),
    Hostile("zip-symlink", "archive", w.write_zip_symlink, ("archive/link",)),
    Hostile("tar-traversal", "archive", lambda path: w.write_tar(path, "../evil.txt"), ("archive/path-escape",)),
    Hostile(
        "tar-symlink",
        "archive",
        lambda path: w.write_tar(path, "names.txt", tarfile.SYMTYPE, "/etc/passwd"),
        ("archive/link",),
    ),
    Hostile(
        "tar-hard-link",
        "archive",
        lambda path: w.write_tar(path, "names.txt", tarfile.LNKTYPE, "model.onnx"),
        ("archive/link",),
    ),
    Hostile(
        "tar-device", "archive", lambda path: w.write_tar(path, "null", tarfile.CHRTYPE), ("archive/special",)
    ),
)
BY_NAME: Final = {entry.name: entry for entry in CATALOGUE}
DEMO: Final = ("external-parent", "allocates-at-run", "loops", "goldens-wrong", "other-team")
"""What ``make demo`` drops, in this order."""


def main(arguments: list[str] | None = None) -> int:
    """Write the named bundles, or all."""
    parser = argparse.ArgumentParser(description="Write bundles that must never be accepted.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BY_NAME)}")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in BY_NAME]
    if unknown:
        parser.error(f"no such bundle: {', '.join(unknown)}")
    given.directory.mkdir(parents=True, exist_ok=True)
    for name in given.names or BY_NAME:
        entry = BY_NAME[name]
        print(f"{entry.write(given.directory / name)}: {' or '.join(sorted(entry.verdicts))}, {entry.codes[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
