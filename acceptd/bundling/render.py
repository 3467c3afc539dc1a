"""A proposal as the text of ``bundle.toml``: every name one quoted text, comments in acceptd's own words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from acceptd.bundling.propose import Comments, Proposal
from acceptd.contracts.toml import key, pairs, told_lines
from acceptd.errors import MalformedError, UsageError
from acceptd.policy.manifest import Manifest

MAX_BYTES: Final = 64 << 10
"""What the ``manifest`` job reads at most."""
HEAD: Final = (
    "bundle.toml: what this bundle is. Proposed by `acceptd bundle init` from the model itself.",
    "What was found is written as it is. What is guessed says so. FILL IN marks what only people know.",
    "Keys and their meaning: docs/bundle.md.",
)


def manifest_text(proposal: Proposal, head: tuple[str, ...] = HEAD) -> str:
    """Return the text; reading it gives the proposal's manifest. Raises UsageError where it is too large."""
    text = _text(lean(proposal.manifest), proposal.comments, head)
    if len(text.encode()) > MAX_BYTES:
        raise UsageError(
            f"the interface makes a bundle.toml of {len(text.encode())} bytes; {MAX_BYTES} are possible",
            remedy="give the model fewer inputs and outputs, or the bundle fewer models",
        )
    return text


def lean(manifest: Manifest) -> dict[str, Any]:
    """Return the JSON form without what every reader takes for granted. Keys of None stay, for their comments."""
    document: dict[str, Any] = manifest.model_dump(mode="json", by_alias=True)
    for model in document["models"]:
        for port in (*model["inputs"], *model["outputs"]):
            if port["type"] == "tensor":
                del port["type"]
        _without(model, "rows_interact", False)
        for port in model["inputs"]:
            _without(port, "optional", False)
    _without(document["bundle"], "prohibited_uses", [])
    document["export"] = {name: item for name, item in document["export"].items() if item not in (None, [])}
    return document


def _without(table: dict[str, Any], name: str, default: object) -> None:
    if table.get(name) == default:
        del table[name]


def _text(document: Mapping[str, Any], comments: Comments, head: tuple[str, ...]) -> str:
    lines = [f"# {one}".rstrip() for one in head]
    lines += [
        "",
        f"schema = {document['schema']}",
        "",
        "[bundle]",
        *pairs(document["bundle"], comments, "bundle."),
    ]
    for number, (name, bounds) in enumerate(document["dims"].items()):
        lines += ["", *told_lines(comments, f"dims[{number}]"), f"[dims.{key(name)}]", *pairs(bounds, {}, "")]
    for number, model in enumerate(document["models"]):
        lines += _model(model, comments, f"models[{number}]")
    for name in ("preprocessing", "labels", "export"):
        if document.get(name):
            lines += ["", *told_lines(comments, name), f"[{name}]", *pairs(document[name], comments, f"{name}.")]
    if document.get("files") is not None:
        raise MalformedError("a proposal has no lock")
    return "\n".join(lines).strip("\n") + "\n"


def _model(model: Mapping[str, Any], comments: Comments, place: str) -> Iterator[str]:
    parts = ("inputs", "outputs", "quantization", "vectors")
    yield from ("", *told_lines(comments, place), "[[models]]")
    yield from pairs(model, comments, f"{place}.", skip=parts)
    for part in ("inputs", "outputs"):
        if not model[part]:
            yield f"{part} = []"
    for part in parts:
        if part == "quantization":
            if model.get(part):
                yield from ("", *told_lines(comments, f"{place}.{part}"), "[models.quantization]")
                yield from pairs(model[part], comments, f"{place}.{part}.")
            continue
        if part == "vectors" and comments.get(f"{place}.{part}"):
            yield from ("", *told_lines(comments, f"{place}.{part}"))
        for index, one in enumerate(model[part]):
            within = f"{place}.{part}[{index}]"
            first = part == "vectors" and not index and comments.get(f"{place}.{part}")
            yield from (*(() if first else ("",)), *told_lines(comments, within), f"[[models.{part}]]")
            yield from pairs(one, comments, f"{within}.")
