"""Write the JSON Schemas of what people write (bundle.toml, policies, contracts, profiles) and of what is signed.

``python -m tools.gen_schema`` writes ``docs/<kind>.schema.json``; ``--check`` says whether they are up to date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from acceptd.json_schemas import TEXTS

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    stale = []
    check = parser.parse_args().check
    for kind, text_of in TEXTS.items():
        target = DOCS / f"{kind}.schema.json"
        if not check:
            target.write_text(text_of(kind), encoding="utf-8")
        elif not target.exists() or target.read_text(encoding="utf-8") != text_of(kind):
            stale.append(target.name)
    if stale:
        print(f"out of date: {', '.join(stale)}: run python -m tools.gen_schema", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
