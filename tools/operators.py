"""Which operators real models use, and the list of them in policies/strict.toml.

``python -m tools.operators measure DIR`` reads every ``.onnx`` file below DIR (``make corpus`` fills one) and
writes ``tools/operators.json``: by operator the models that use it, and the most nodes of it in one model.
``python -m tools.operators write`` puts those operators into ``policies/strict.toml``, between its two marks;
``check`` says whether they are up to date. What strict.toml denies is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
DATA: Final = ROOT / "tools" / "operators.json"
STRICT: Final = ROOT / "policies" / "strict.toml"
BEGIN: Final = "# Generated list: begin\n"
END: Final = "# Generated list: end\n"


def measure(directory: Path) -> dict[str, Any]:
    """Return what the models below ``directory`` use: counts by ``domain::OpType``, over every scope."""
    import onnx

    models: Counter[str] = Counter()
    most: Counter[str] = Counter()
    files = sorted(directory.rglob("*.onnx"))
    for file in files:
        model = onnx.load(str(file), load_external_data=False)
        local = {(one.domain, one.name) for one in model.functions}
        used: Counter[str] = Counter()
        for nodes in (model.graph.node, *(one.node for one in model.functions)):
            for node in _nodes(nodes):
                if (node.domain, node.op_type) not in local:
                    used[f"{node.domain or 'ai.onnx'}::{node.op_type}"] += 1
        models.update(used.keys())
        for name, count in used.items():
            most[name] = max(most[name], count)
    rows = {name: {"models": models[name], "most_nodes": most[name]} for name in sorted(models)}
    return {"models": len(files), "operators": rows}


def _nodes(nodes: Any) -> Iterator[Any]:
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting += graph.node


def block(data: dict[str, Any], denied: frozenset[str]) -> str:
    """Return the lines of the list, sorted, a domain at a time."""
    names = [name for name in data["operators"] if name not in denied]
    lines, row = [], "   "
    for name in sorted(names, key=lambda one: (one.partition("::")[0], one)):
        if len(row) + len(name) + 4 > 112:
            lines.append(row)
            row = "   "
        row += f' "{name}",'
    lines.append(row)
    return "allowed = [\n" + "\n".join(lines) + "\n]\n"


def written() -> str:
    """Return strict.toml with the list as it ought to be."""
    text = STRICT.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    denied = frozenset(tomllib.loads(head + tail)["operators"]["denied"])
    return head + BEGIN + block(json.loads(DATA.read_text(encoding="utf-8")), denied) + END + tail


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["measure", "write", "check"])
    parser.add_argument("directory", nargs="?", type=Path)
    given = parser.parse_args()
    if given.action == "measure":
        if given.directory is None:
            parser.error("measure needs a directory")
        DATA.write_text(json.dumps(measure(given.directory), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    elif given.action == "write":
        STRICT.write_text(written(), encoding="utf-8")
    elif STRICT.read_text(encoding="utf-8") != written():
        print("policies/strict.toml is out of date: run python -m tools.operators write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
