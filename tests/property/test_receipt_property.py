"""No receipt holds a value: whatever is fed, comes out, or is said by an error."""

from __future__ import annotations

import base64
import json
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acceptd.errors import DigestMismatchError, LoaderError, MalformedError
from acceptd.loader_receipts import Request, digests, raw_digest
from acceptd.release.receipt import make_receipt, parse
from acceptd.release.receipt_schema import schema
from tests.receipt_world import PLAIN

pytestmark = pytest.mark.property
SCHEMA: Any = jsonschema.Draft202012Validator(schema())
NUMBERS = st.floats(-1e6, 1e6, width=32).filter(lambda value: len(repr(value)) > 7)


class _Release:
    """As much of a release as a receipt asks for."""

    model_id, channel, number, profile = "mosaic/m", "production", 7, "cpu"
    release_digest = bundle_digest = "a" * 64
    manifest: dict[str, Any] = {}


class _Session:
    release, model, runtime_identity = _Release(), "main", "b" * 64
    requested_provider = selected_provider = "CPUExecutionProvider"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def run(self, inputs: Any, fed: Any) -> Any:
        fed(inputs)
        raise self.error


def members(value: object) -> list[object]:
    """Return every leaf of a JSON value."""
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in members(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in members(item)]
    return [value]


@settings(max_examples=40)
@given(
    st.lists(NUMBERS, min_size=1, max_size=8),
    st.lists(NUMBERS, min_size=1, max_size=8),
    st.binary(min_size=12, max_size=64),
    st.text(st.characters(min_codepoint=0x100, max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1),
)
def test_no_float_no_input_and_no_output_is_in_a_line(
    fed: list[float], out: list[float], raw: bytes, text: str
) -> None:
    inputs = {"features": np.array(fed, np.float32), "words": np.array([text], object)}
    request = Request(_Session(ValueError(f"{fed} {text} {raw!r}")), raw_input=raw)  # type: ignore[arg-type]
    with pytest.raises(ValueError), request:  # noqa: PT011 - its message is what must not be told
        request.run(inputs)
    made = make_receipt(
        _Release(),  # type: ignore[arg-type]
        model="main", runtime_identity="b" * 64, inputs=digests(inputs),
        outputs=digests({"scores": np.array(out, np.float32), "maps": [{0: value} for value in out]}),
        raw_input=raw_digest(raw),
    )  # fmt: skip
    for one in (request.receipt, made):
        line = one.line
        assert not any(isinstance(leaf, float) for leaf in members(json.loads(line)))
        for value in (*fed, *out):
            for told in {repr(value), repr(float(np.float32(value))), f"{value:.6g}"}:
                assert len(told) < 7 or told.encode() not in line
        for secret in (raw, inputs["features"].tobytes(), np.array(out, np.float32).tobytes()):
            part = secret[:12]
            for told in (part, part.hex().encode(), base64.b64encode(part)[:16], base64.b85encode(part)):
                assert len(told) < 8 or told not in line
        assert text.encode() not in line
        assert json.dumps(text)[1:-1].encode() not in line
        SCHEMA.validate(json.loads(line))
        assert parse(line) == one


@given(st.integers(0, len(PLAIN.line) - 1), st.binary(min_size=0, max_size=3))
def test_a_line_with_other_bytes_is_another_receipt_or_a_typed_error(at: int, other: bytes) -> None:
    line = PLAIN.line[:at] + other + PLAIN.line[at + 1 :]
    try:
        found = parse(line)
    except (MalformedError, DigestMismatchError):
        return
    assert found == PLAIN  # what is bound is the same; what stands beside may say something else


@settings(max_examples=30)
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(
        ["schema", "bound", "beside", "digest", "durations", "inputs", "decision", "x"]), inner, max_size=5),
    max_leaves=20,
))  # fmt: skip
def test_any_json_is_a_receipt_or_a_typed_error(value: object) -> None:
    with pytest.raises(LoaderError):
        parse(json.dumps(value).encode())
