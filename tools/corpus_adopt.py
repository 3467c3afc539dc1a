"""Lay the corpus out as a team has its models: files without a manifest, some with their weights beside them.

``python -m tools.corpus_adopt CORPUS OUT`` copies every model file below ``CORPUS/cache`` (made by
:mod:`tools.corpus` and :mod:`tools.corpus_variants`) to ``OUT``, and writes the smallest of them a second time
with external data, as a framework's exporter does. ``make adopt-corpus`` gives them to ``acceptd adopt``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Final

import onnx

MOVED: Final = 8
"""So many models get their weights moved: with them there are more than fifty."""
WEIGHTS: Final = "weights.bin"


def models(corpus: Path) -> list[Path]:
    """Return every model file of the corpus, the smallest first."""
    found = [path for path in (corpus / "cache").rglob("*.onnx") if path.is_file()]
    return sorted(found, key=lambda path: (path.stat().st_size, str(path)))


def lay_out(corpus: Path, out: Path) -> int:
    """Copy the models, and what lies beside those with external data; return how many there are now."""
    moved = 0
    for number, path in enumerate(models(corpus)):
        place = out / path.parent.relative_to(corpus / "cache")
        place.mkdir(parents=True, exist_ok=True)
        for file in [path, *path.parent.glob("*.data"), *path.parent.glob(WEIGHTS)]:
            shutil.copyfile(file, place / file.name)
        if moved == MOVED:
            continue
        model = onnx.load(path)
        if not any(len(tensor.raw_data) > 1024 for tensor in model.graph.initializer):
            continue  # nothing that would be moved
        beside = out / "moved" / f"{number:02d}-{path.stem}"
        beside.mkdir(parents=True)
        onnx.save_model(
            model,
            beside / path.name,
            save_as_external_data=True,
            all_tensors_to_one_file=True,
            location=WEIGHTS,
            convert_attribute=False,
        )
        moved += 1
    return len(list(out.rglob("*.onnx")))


def main() -> int:
    """Lay them out anew."""
    parser = argparse.ArgumentParser(description="Lay the corpus out as models without manifests.")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    shutil.rmtree(given.out, ignore_errors=True)
    print(f"{lay_out(given.corpus, given.out)} models below {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
