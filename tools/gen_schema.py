"""Write docs/bundle.schema.json, the JSON Schema of bundle.toml. ``--check`` says whether it is up to date."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from acceptd.policy.manifest import Manifest

TARGET = Path(__file__).resolve().parents[1] / "docs" / "bundle.schema.json"


def render() -> str:
    """Return the schema (JSON Schema 2020-12) as indented JSON."""
    schema = Manifest.model_json_schema(by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "bundle.toml of acceptd"}
    return json.dumps({**schema, **head}, indent=1, sort_keys=True, ensure_ascii=True) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        current = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
        if current != render():
            print("docs/bundle.schema.json is out of date: run python -m tools.gen_schema", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(render(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
