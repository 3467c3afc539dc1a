"""A model against the independent export that its bundle carries: byte-equal, graph-equal or different. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from acceptd.evidence import Sealed, Snapshot
from acceptd.judge.difference import Difference, compare
from acceptd.judge.finding import Finding
from acceptd.judge.words import make, safe
from acceptd.policy.manifest import Manifest, ModelSpec

Relation = Literal["byte-equal", "graph-equal", "different", "unknown"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the two exports of one model are related. ``difference`` says in what, seen from the released one."""

    model: str
    file: str
    exporter: str
    relation: Relation
    same_structure: bool | None
    """Whether they differ in nothing but values of weights; None where that is not known."""
    difference: Difference | None

    def document(self) -> dict[str, Any]:
        """Return the comparison as JSON data, every text printable."""
        head: dict[str, Any] = safe(
            {
                "model": self.model,
                "file": self.file,
                "exporter": self.exporter,
                "relation": self.relation,
                "same_structure": self.same_structure,
            }
        )
        return head | {"difference": self.difference.document() if self.difference else None}


def comparisons(manifest: Manifest, sealed: Sealed, now: Mapping[str, Snapshot]) -> list[Comparison]:
    """Return one comparison per model with an independent export. ``now`` has both by their jobs' names."""
    found = []
    for model in manifest.models:
        second = model.independent
        if second is None or model.independent_export is None:
            continue
        by = model.independent_export.exporter
        exporter = f"{by.name} {by.version}" if by else ""
        relation, same, difference = _relation(model, second, sealed, now)
        found.append(Comparison(model.name, second.file, exporter, relation, same, difference))
    return found


def _relation(
    model: ModelSpec, second: ModelSpec, sealed: Sealed, now: Mapping[str, Snapshot]
) -> tuple[Relation, bool | None, Difference | None]:
    digests = {file.path: file.sha256 for file in sealed.files}
    ours, theirs = now.get(model.name), now.get(second.name)
    equal_bytes = model.file in digests and digests[model.file] == digests.get(second.file)
    external = any(one is None or one.facts.external_count for one in (ours, theirs))
    if equal_bytes and not external:
        return "byte-equal", True, None
    if ours is None or theirs is None:
        return "unknown", None, None
    same = ours.structure.topology_sha256 == theirs.structure.topology_sha256
    hashes = (ours.structure.graph_sha256, theirs.structure.graph_sha256)
    if all(hashes) and hashes[0] == hashes[1]:
        return ("byte-equal" if equal_bytes else "graph-equal"), True, None
    if same and not all(hashes):
        return "unknown", True, None  # the weights of one of them could not be read
    return "different", same, compare(ours, theirs)


def findings(found: list[Comparison], manifest: Manifest) -> Iterator[Finding]:
    """Yield one finding per comparison."""
    files = {model.name: model.file for model in manifest.models}
    for one in found:
        where = f"{files[one.model]} and {one.file}"
        if one.relation == "byte-equal":
            yield make("export/independent-byte-equal", "inspect", where, "the two files are one file")
        elif one.relation == "graph-equal":
            yield make("export/independent-graph-equal", "inspect", where, "the two compute the same")
        elif one.relation == "unknown":
            message = "the weights or facts of one of them could not be read"
            yield make("export/independent-unknown", "inspect", where, message)
        else:
            yield make("export/independent-differs", "inspect", where, _words(one))


def _words(one: Comparison) -> str:
    difference = one.difference
    if one.same_structure or difference is None:
        return "the same structure with other values of weights"
    parts = [
        f"{what} {', '.join(names[:6])}{f' and {len(names) - 6} more' if len(names) > 6 else ''}"
        for what, names in (
            ("only there:", difference.operators_added),
            ("only here:", difference.operators_removed),
        )
        if names
    ]
    parts += [f"{change.what} {change.before} and {change.after}" for change in difference.interface[:4]]
    parts += [f"{change.what} {change.before} and {change.after}" for change in difference.sizes[:4]]
    return "another structure: " + ("; ".join(parts) or "the same operators, connected otherwise")
