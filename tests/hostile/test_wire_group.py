"""HOSTILE's group Wire through the real rooms: each family in the open and in unexpected places.

A function's body, a branch in it, an attribute's default, a tensor in an attribute, a sparse tensor, a
dimension, an import, metadata. Never accepted; the finding names the place; the cell goes on undisturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from onnx import helper

from examples import evidence_classifier as classifier
from examples import hostile_writers as writers
from tests import wire_world as w
from tests.bench_world import Desk, desk
from tests.static_world import field_bytes
from tests.wire_world import (
    ATTRIBUTE_TENSOR,
    BRANCH,
    BRANCH_NODE,
    DEFAULT,
    DIMENSION,
    FUNCTION,
    FUNCTION_IMPORT,
    FUNCTION_NODE,
    GRAPH,
    IMPORT,
    METADATA,
    MODEL,
    NODE,
    NODE_METADATA,
    PLACES,
    SPARSE,
    TENSOR,
    number,
    put,
    text,
)

pytestmark = pytest.mark.hostile

PLAIN = classifier.build_model()
RICH = w.rich()
BEYOND = field_bytes(1, b"abc")[:-1]
"""A field that reaches beyond the end of its message."""
FLOOD = 150_000
"""Of what is wrong each time; the catalogue has the flood of empty messages."""
GROUP = b"\x0b\x08\x01\x0c"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("wire")) as made:
        yield made


@dataclass(frozen=True)
class Case:
    """A model file, the code that must be found in it, and what the place must say."""

    raw: bytes | Callable[[], bytes]
    """The file, or how to make one that is too large to be kept."""
    code: str
    where: str = ""


def at(path: w.Path, extra: bytes, code: str, where: str = "", times: int = 1) -> Case:
    """Return the rich model with ``extra`` in a place, which the finding must name."""
    raw = put(path, extra) if times == 1 else lambda: put(path, extra * times)
    return Case(raw, code, where or PLACES[path])


def deep(levels: int, path: w.Path, field: int) -> bytes:
    """Return the rich model with a type of sequences of sequences in a value info field of ``path``."""
    kind = field_bytes(1, number(1, 1))
    for _ in range(levels):
        kind = field_bytes(4, field_bytes(1, kind))
    return put(path, field_bytes(field, text(1, "deep") + field_bytes(2, kind)))


def subgraphs(levels: int) -> bytes:
    """Return a node whose attribute holds a graph whose node holds a graph …"""
    node = text(4, "If")
    for _ in range(levels):
        attribute = text(1, "then_branch") + field_bytes(6, field_bytes(1, node)) + number(20, 5)
        node = text(4, "If") + field_bytes(5, attribute)
    return node


CASES = {
    # truncated, trailing, concatenated
    "truncated": Case(PLAIN[:-3], "wire/truncated"),
    "truncated-in-function-body": at(FUNCTION_NODE, BEYOND, "wire/truncated"),
    "truncated-in-attribute-default": at(DEFAULT, b"\x20", "wire/truncated"),
    "trailing-zeros": Case(PLAIN + bytes(64), "wire/trailing-data"),
    "trailing-zeros-in-sparse-tensor": at(SPARSE, bytes(8), "wire/malformed"),
    "trailing-junk": Case(PLAIN + b"\xff\xfe junk", "wire/"),
    "trailing-junk-in-function": at(FUNCTION, b"\x07 junk", "wire/malformed"),
    "two-models": Case(PLAIN + PLAIN, "wire/duplicate-field", "ir_version"),
    "two-models-of-which-one-is-not-the-same": Case(RICH + PLAIN, "wire/duplicate-field", "graph"),
    "two-functions-in-one": Case(
        put(MODEL, field_bytes(25, 2 * (text(1, "G") + text(10, "local")))),
        "wire/duplicate-field",
        "functions[1] G",
    ),
    # fields that are unknown, doubled, of a wrong type; groups
    "unknown-field": at(MODEL, field_bytes(1000, b"hidden"), "wire/unknown-field", "field 1000"),
    "unknown-field-in-dimension": at(DIMENSION, field_bytes(99, b"hidden"), "wire/unknown-field"),
    "unknown-field-in-entry-of-a-nodes-metadata": at(NODE_METADATA, number(3, 7), "wire/unknown-field"),
    "payload-in-unknown-field": at(MODEL, field_bytes(1000, bytes(1 << 20)), "wire/hidden-payload", "model.onnx"),
    "payload-in-segment-of-sparse-tensor": Case(
        put(SPARSE, field_bytes(3, field_bytes(9, bytes(1 << 16)))), "wire/unknown-field", PLACES[SPARSE]
    ),
    "group": at(MODEL, GROUP, "wire/group", "ir_version"),
    "group-in-branch": at(BRANCH_NODE, GROUP, "wire/group"),
    "group-in-tensor-of-attribute": at(ATTRIBUTE_TENSOR, GROUP, "wire/group"),
    "graph-twice": Case(PLAIN + field_bytes(7, text(2, "other")), "wire/duplicate-field", "graph"),
    "ir-version-twice": Case(PLAIN + number(1, 9), "wire/duplicate-field", "ir_version"),
    "name-twice-in-function": at(FUNCTION, text(1, "G"), "wire/duplicate-field"),
    "operator-twice-in-branch": at(BRANCH_NODE, text(4, "Exp"), "wire/duplicate-field"),
    "value-twice-in-attribute-default": at(DEFAULT, number(3, 2), "wire/duplicate-field"),
    "type-twice-in-sparse-tensor": at(SPARSE, number(2, 7), "wire/duplicate-field"),
    "version-twice-in-import-of-function": at(FUNCTION_IMPORT, number(2, 12), "wire/duplicate-field"),
    "number-and-name-in-one-dimension": Case(
        put((*GRAPH, (11, 0), (2, 0), (1, 0), (2, 0), (1, 0)), number(1, 4)),
        "wire/duplicate-field",
        "graph/input[0]",
    ),
    "wrong-type-ir-version": at(MODEL, field_bytes(1, b"x"), "wire/wrong-type", "ir_version"),
    "wrong-type-operator-in-branch": at(BRANCH_NODE, number(4, 1), "wire/wrong-type"),
    "wrong-type-key-in-metadata": at(METADATA, number(1, 1), "wire/wrong-type"),
    "wrong-type-dims-in-tensor-of-attribute": at(ATTRIBUTE_TENSOR, b"\x09" + bytes(8), "wire/wrong-type"),
    # numbers
    "padded-ir-version": Case(b"\x08\x88\x00" + PLAIN[2:], "wire/overlong-varint", "ir_version"),
    "padded-length-in-branch": at(BRANCH, b"\x52\x80\x00", "wire/overlong-varint"),
    "padded-number-in-attribute-default": at(DEFAULT, field_bytes(8, b"\x81\x00"), "wire/overlong-varint"),
    "number-of-eleven-bytes": at(MODEL, b"\x28" + b"\x80" * 10 + b"\x01", "wire/malformed", "model_version"),
    "tag-of-more-than-32-bits-in-function": at(FUNCTION, b"\x8a\x80\x80\x80\x10\x00", "wire/malformed"),
    "location-beyond-32-bits": Case(
        w.edit(RICH, TENSOR, lambda body: body + number(14, (1 << 32) + 1)),
        "wire/number-out-of-range",
        PLACES[TENSOR],
    ),
    "type-beyond-32-bits-in-tensor-of-attribute": at(
        ATTRIBUTE_TENSOR, number(2, (1 << 32) + 1), "wire/number-out-of-range"
    ),
    "location-that-is-none-in-sparse-tensor": at(SPARSE, number(14, 2), "wire/unknown-value"),
    "type-of-attribute-that-is-none": Case(
        put(FUNCTION, field_bytes(11, text(1, "e") + number(3, 1) + number(20, 99))),
        "wire/unknown-value",
        "e/type",
    ),
    # nesting and floods
    "nesting-100": Case(deep(60, GRAPH, 13), "wire/too-deep", "graph/value_info"),
    "nesting-10000": Case(deep(5000, GRAPH, 13), "wire/too-deep", "graph/value_info"),
    "nesting-in-function": Case(deep(60, FUNCTION, 12), "wire/too-deep", "functions[0] F/value_info"),
    "nesting-of-branches-in-function": Case(
        put(FUNCTION, field_bytes(7, subgraphs(40))), "wire/too-deep", "functions[0] F/node[3] If/then_branch"
    ),
    "a-flood-of-invalid-names-in-function": at(
        FUNCTION, field_bytes(4, b"\xff"), "wire/too-many-fields", times=FLOOD
    ),
    "empty-tensors-in-attribute-default": at(DEFAULT, b"\x52\x00", "wire/too-many-fields", times=FLOOD),
    # names
    "invalid-utf8-name": at(NODE, field_bytes(1, b"a\xff"), "wire/invalid-utf8", "graph/node[0] MatMul/input"),
    "invalid-utf8-in-branch": at(BRANCH_NODE, field_bytes(2, b"\xc3\x28"), "wire/invalid-utf8"),
    "invalid-utf8-dimension": Case(
        put((*GRAPH, (11, 0), (2, 0), (1, 0), (2, 0)), field_bytes(1, field_bytes(2, b"\xed\xa0\x80"))),
        "wire/invalid-utf8",
        "graph/input[0]",
    ),
    "invalid-utf8-metadata": Case(
        RICH + field_bytes(14, field_bytes(1, b"\xff")), "wire/invalid-utf8", "metadata_props"
    ),
    "nul-in-name": at(NODE, text(2, "y\0z"), "structure/unsafe-name", "graph/node[0] MatMul/output"),
    "nul-in-name-of-attribute-of-function": at(FUNCTION, text(6, "k\0"), "structure/unsafe-name", "F/attribute"),
    "control-in-operator-of-branch": Case(
        put(BRANCH, field_bytes(1, text(4, "Relu\x1b[2J"))), "structure/unsafe-name", PLACES[BRANCH]
    ),
    "bidi-in-output-of-branch": at(BRANCH_NODE, text(2, "y\u202ez"), "structure/unsafe-name"),
    "bidi-in-key-of-metadata": Case(
        RICH + field_bytes(14, text(1, "li\u2066cense")), "structure/unsafe-name", "metadata_props[1]"
    ),
    "invisible-in-domain-of-import": Case(
        RICH + field_bytes(8, text(1, "lo\u200bcal") + number(2, 1)), "structure/unsafe-name", "opset_import[2]"
    ),
    "look-alike-name": at(
        NODE, text(2, "prоbabilities"), "structure/look-alike-name", "graph/node[0] MatMul/output"
    ),
    "look-alike-operator-in-branch": Case(
        put(BRANCH, field_bytes(1, text(4, "Rеlu"))), "structure/look-alike-name", PLACES[BRANCH]
    ),
    "look-alike-of-full-width-in-function": at(FUNCTION, text(5, "ｑuality"), "structure/look-alike-name"),
    "twin-names-in-branch": Case(
        put(BRANCH, b"".join(field_bytes(1, text(2, one) + text(4, "Relu")) for one in ("cop", "сор"))),
        "structure/look-alike-name",
        PLACES[BRANCH],
    ),
    "long-name-in-attribute-default": at(DEFAULT, text(21, "n" * 5000), "wire/long-name"),
    # other formats
    "ort-mark-at-offset-4": Case(b"\x12\x06ORORTM" + PLAIN, "wire/ort-format"),
    "ort-flatbuffer": Case(b"\x1c\0\0\0ORTM" + bytes(64), "wire/ort-format"),
    # versions
    **{
        f"ir-version-{value}": Case(
            w.rich(lambda proto, value=value: setattr(proto, "ir_version", value)),
            "structure/ir-version-out-of-range",
        )
        for value in (0, -1, 999, (1 << 32) + 8)
    },
    "no-ir-version": Case(PLAIN[2:], "structure/ir-version-out-of-range"),
    **{
        f"opset-{value}": Case(
            w.rich(lambda proto, value=value: setattr(proto.opset_import[0], "version", value)),
            "structure/opset-out-of-range",
            PLACES[IMPORT],
        )
        for value in (0, -1, 999, (1 << 32) + 13)
    },
    **{
        f"opset-{value}-in-function": Case(
            w.rich(lambda proto, value=value: setattr(proto.functions[0].opset_import[0], "version", value)),
            "structure/opset-out-of-range",
            PLACES[FUNCTION_IMPORT],
        )
        for value in (0, -1, 999)
    },
    **{
        f"opset-{value}-of-{domain}": Case(
            w.rich(
                lambda proto, value=value, domain=domain: proto.opset_import.append(
                    helper.make_opsetid(domain, value)
                )
            ),
            "structure/opset-out-of-range",
            "opset_import[2]",
        )
        for domain, value in (("ai.onnx.ml", 999), ("com.microsoft", 0), ("com.microsoft", (1 << 32) + 1))
    },
    "aliased-domain": Case(
        w.rich(lambda proto: proto.opset_import.append(helper.make_opsetid("ai.onnx", 12))),
        "structure/duplicate-domain",
        "opset_import",
    ),
    "domain-twice": Case(
        w.rich(lambda proto: proto.opset_import.append(helper.make_opsetid("local", 2))),
        "structure/duplicate-domain",
        "opset_import",
    ),
    "aliased-domain-in-function": Case(
        w.rich(lambda proto: proto.functions[0].opset_import.append(helper.make_opsetid("ai.onnx", 12))),
        "structure/duplicate-domain",
        "functions[0]/opset_import",
    ),
    # metadata
    "metadata-of-100-MB": Case(
        lambda: RICH + field_bytes(14, text(1, "k") + field_bytes(2, b"m" * 100_000_000)),
        "structure/metadata-too-large",
    ),
    "documentation-of-8-MB-in-function": Case(
        lambda: put(FUNCTION, field_bytes(8, b"d" * 8_000_000)), "structure/metadata-too-large"
    ),
    "documentation-of-8-MB-in-sparse-tensor": Case(
        lambda: put(SPARSE, field_bytes(12, b"d" * 8_000_000)), "structure/metadata-too-large"
    ),
}


def test_positive_control_the_rich_model_has_none_of_these(place: Desk, tmp_path: Path) -> None:
    report = place.check(writers.plain(tmp_path / "b", RICH))
    assert [one for one in report["findings"] if one["severity"] in {"reject", "hold"}] == []


@pytest.mark.parametrize("name", CASES)
def test_never_accepted_and_the_finding_names_the_place(name: str, place: Desk, tmp_path: Path) -> None:
    case = CASES[name]
    raw = case.raw() if callable(case.raw) else case.raw
    report = place.check(writers.plain(tmp_path / "b", raw))
    assert report["verdict"] in {"rejected", "held"}
    found = [one for one in report["findings"] if one["code"].startswith(case.code)]
    assert {one["severity"] for one in found} <= {"reject", "hold"}
    assert any(case.where in one["where"] for one in found), report["findings"]


def test_afterwards_the_same_cell_accepts_a_good_bundle(place: Desk, tmp_path: Path) -> None:
    assert place.check(writers.plain(tmp_path / "b"))["verdict"] == "accepted"


def test_each_family_stands_in_an_unexpected_place() -> None:
    codes: dict[str, set[str]] = {}
    for case in CASES.values():
        codes.setdefault(case.code, set()).add(case.where)
    hidden = ("functions[0]", "sparse", "input[0]", "branch", "/value", "import", "metadata_props")
    for code, places in codes.items():
        if code not in {
            "wire/",
            "wire/ort-format",
            "structure/ir-version-out-of-range",
            "wire/trailing-data",
            "structure/metadata-too-large",
            "wire/hidden-payload",
        }:  # these are of the whole file
            assert any(part in one for one in places for part in hidden), code
