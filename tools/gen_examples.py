"""Give each finding code that has none an example, from findings that the tests made.

``pytest -p tools.finding_collector TESTS`` writes the findings, ``python -m tools.gen_examples`` chooses. An
example stays until the source no longer says its sentence; a better one may be written into the file by hand.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from acceptd.finding_examples import FILE
from acceptd.judge.codes import CODES
from tools.finding_templates import LEAST, letters

_PLAIN = frozenset("…→×≥≤·−’“”")


def _readable(where: str, message: str) -> tuple[object, ...]:
    """Return a key: a person would rather read ordinary characters, a place, and no flood."""
    text = where + message
    odd = "\\u" in text or "\\x" in text or any(not (char.isascii() or char in _PLAIN) for char in text)
    placed = where.startswith(("model.onnx: graph", "main: test_data_set", "bundle.toml"))
    poor = len(where) < 2 or where.startswith("inspect ")
    return odd, len(message) > 160, len(where) > 70, poor, not placed, message


def choose(rows: Iterable[dict[str, str]], known: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return an example of each registered code that has one: those of ``known`` that still fit, else the best."""
    result = {code: pair for code, pair in known.items() if code in CODES and letters(pair[1]) >= LEAST}
    found: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        if row["code"] in CODES and row["code"] not in result:
            found.setdefault(row["code"], set()).add((row["where"], row["message"]))
    for code, pairs in found.items():
        fitting = [pair for pair in pairs if letters(pair[1]) >= LEAST]
        if fitting:
            result[code] = list(min(fitting, key=lambda pair: _readable(*pair)))
    return result


def write(chosen: dict[str, list[str]]) -> None:
    """Write the data, one code a line, so that a change of one is a change of one line."""
    lines = [f"{json.dumps(code)}: {json.dumps(chosen[code], ensure_ascii=False)}" for code in sorted(chosen)]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, default=[Path(".cache/findings.jsonl")])
    given = parser.parse_args()
    rows = [json.loads(line) for path in given.files for line in path.read_text("utf-8").splitlines()]
    known = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    chosen = choose(rows, known)
    write(chosen)
    missing = sorted(set(CODES) - set(chosen))
    print(f"{len(chosen)} of {len(CODES)} codes have an example; missing: {', '.join(missing) or 'none'}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
