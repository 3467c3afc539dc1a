"""Write acceptd/selftest_bundles.py, the small hostile set of ``acceptd selftest``, from examples/.

The command itself must need neither examples/ nor onnx on the trusted side, so the bundles are shipped as bytes.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples import evidence_classifier as classifier
from examples.hostile_bundles import BY_NAME

TARGET: Final = Path(__file__).resolve().parents[1] / "acceptd" / "selftest_bundles.py"
CHOSEN: Final = (
    "loops", "allocates-at-run", "allocates-at-load", "divides-at-load", "external-parent", "external-golden",
    "goldens-wrong",
)  # fmt: skip
HEAD: Final = '''"""A good bundle and a small hostile set; ``python -m tools.gen_selftest`` wrote it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Shipped:
    """One bundle. ``codes``: one of them must be among the findings; none where it must be accepted."""

    name: str
    codes: tuple[str, ...]
    files: dict[str, str]
    """Path inside the bundle to a name in :data:`CONTENT`."""


def write(bundle: Shipped, directory: Path) -> Path:
    """Write ``bundle`` below ``directory``; return its place."""
    place = directory / bundle.name
    for path, content in bundle.files.items():
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(CONTENT[content]))
    return place

'''


def main() -> int:
    """Build the bundles and write the module."""
    contents: dict[bytes, str] = {}
    bundles: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        places = {"honest": classifier.write_bundle(Path(scratch) / "honest", sets=2)}
        places |= {name: BY_NAME[name].write(Path(scratch) / name) for name in CHOSEN}
        for name, place in places.items():
            rows = []
            for file in sorted(path for path in place.rglob("*") if path.is_file()):
                label = contents.setdefault(file.read_bytes(), f"f{len(contents)}")
                rows.append(f'            "{file.relative_to(place).as_posix()}": "{label}",')
            codes = "".join(f'"{code}", ' for code in (BY_NAME[name].codes if name in BY_NAME else ()))
            inner = "\n".join(rows)
            bundles.append(
                f'    Shipped(\n        "{name}",\n        ({codes}),\n        {{\n{inner}\n        }},\n    ),'
            )
    lines = ["CONTENT: Final[dict[str, str]] = {"]
    for data, label in contents.items():
        parts = textwrap.wrap(base64.b64encode(data).decode(), 100)
        lines += [f'    "{label}": (', *(f'        "{part}"' for part in parts), "    ),"]
    lines += ["}", "", "BUNDLES: Final[tuple[Shipped, ...]] = (", *bundles, ")"]
    TARGET.write_text(HEAD + "\n" + "\n".join(lines) + "\n", "utf-8")
    print(f"{TARGET}: {len(bundles)} bundles, {TARGET.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
