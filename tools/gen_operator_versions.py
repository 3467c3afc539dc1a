"""Write acceptd/judge/operator_versions.py: when ONNX changed the definition of each operator, from onnx's own."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Final

import onnx
from onnx import defs

TARGET: Final = Path(__file__).resolve().parents[1] / "acceptd" / "judge" / "operator_versions.py"
HEAD: Final = '''\
"""Opsets in which ONNX defined each operator anew; made by ``python -m tools.gen_operator_versions``.

From the schemas of onnx {version}. An operator of a model is the one of the highest opset that is not beyond
the model's import; two opsets between which nothing stands here mean one and the same operator.
"""

from __future__ import annotations

from typing import Final

# fmt: off
VERSIONS: Final[dict[str, dict[str, tuple[int, ...]]]] = {{
'''


def text() -> str:
    """Return the module's text."""
    table: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for schema in defs.get_all_schemas_with_history():
        table[schema.domain or "ai.onnx"][schema.name].add(schema.since_version)
    lines = [HEAD.format(version=onnx.__version__)]
    for domain in sorted(table):
        lines.append(f'    "{domain}": {{\n')
        row = ""
        for name in sorted(table[domain]):
            versions = ", ".join(map(str, sorted(table[domain][name])))
            item = f'"{name}": ({versions}{"," if "," not in versions else ""}), '
            if row and len(row) + len(item) > 104:
                lines.append(f"        {row.rstrip()}\n")
                row = ""
            row += item
        lines.append(f"        {row.rstrip()}\n    }},\n")
    lines.append("}\n# fmt: on\n")
    return "".join(lines)


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
