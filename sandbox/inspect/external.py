"""External data records, wherever a tensor stands: what they name, and whether that stays inside the bundle.

onnx and onnxruntime read these records differently (measured: offsets like ``1_6``, duplicate keys,
``data.bin\\0.safe``), so only the form that both read alike passes: each key once, exact decimal
digits, a plain relative path to a sealed file beside or below the model. Keys and their meaning:
onnx, docs/ExternalData.md.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sandbox.inspect.problems import Problems
from sandbox.messages import clip, text_of
from sandbox.wire_tensor import EXTERNAL, STRING_TYPE, TensorRecord

KNOWN_KEYS: Final = frozenset({"location", "offset", "length", "checksum"})
MAX_RECORDS: Final = 20_000
MAX_FRAME_TEXT: Final = 5 << 20
"""Characters of records in one frame, below the 8 MiB that a frame may have."""
_DIGITS: Final = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_CHECKSUM: Final = re.compile(r"[0-9a-fA-F]{40}", re.ASCII)
_REMOTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|[\\/]{2}|.*://", re.ASCII | re.DOTALL)
"""A URI scheme (RFC 3986, 3.1), of which a drive letter is the shortest; ``//host``, UNC; a URL further in."""
MODEL_SUFFIXES: Final = (".onnx", ".ort")
_MEMORY_MARKER: Final = "_ORT_MEM_ADDR_"
"""onnxruntime's own marker (``*/_ORT_MEM_ADDR_/*``) for a tensor whose offset is an address in memory."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What the job knows of the bundle: sealed files with sizes, those it can see, those no tensor may name."""

    model: str
    files: Mapping[str, int]
    present: frozenset[str]
    forbidden: frozenset[str]

    @property
    def guarded(self) -> frozenset[str]:
        """The forbidden paths, folded."""
        return frozenset(map(folded, (*self.forbidden, self.model, "bundle.toml")))


@dataclass(frozen=True, slots=True)
class Placed:
    """One tensor's record, judged. ``start`` to ``stop`` are its bytes of ``path``, where it is ``inside``.

    ``checksum`` is the SHA-1 of the file that the record states, in lower case, or empty.
    """

    record: TensorRecord
    name: str
    place: str
    model: str
    location: str
    path: str
    offset: int | None
    length: int | None
    start: int
    stop: int
    inside: bool
    checksum: str

    def frame(self) -> dict[str, Any]:
        """Return the ``External`` body."""
        return {
            "tensor": self.name,
            "location": self.location,
            "offset": self.offset,
            "length": self.length,
            "where": self.place,
            "inside": self.inside,
        }


def folded(path: str) -> str:
    """Return a path as file systems see it that ignore case and forms of Unicode."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())


def resolve(location: str, bundle: Bundle) -> tuple[str, str, str]:
    """Return (path in the bundle, code, message); the code is empty when the location may be read. No I/O."""
    if not location:
        return "", "external-data/missing-location", "stored externally without a location"
    if _MEMORY_MARKER in location:
        return "", "external-data/memory-marker", "names a raw memory address"
    if _REMOTE.match(location.lstrip()):
        return "", "external-data/remote-location", "is a URL, a network path or a drive"
    parts = location.split("/")
    if location.startswith("/"):
        return "", "external-data/path-escape", "is an absolute path"
    if "\\" in location or "\0" in location:
        return "", "external-data/path-escape", "holds a backslash or NUL"
    if ".." in parts:
        return "", "external-data/path-escape", "holds `..`, which leads out of the model's directory or back in"
    base = bundle.model.rpartition("/")[0]
    inner = "/".join(part for part in parts if part not in {"", "."})
    path = f"{base}/{inner}" if base else inner
    if path in bundle.forbidden or path == bundle.model or path == "bundle.toml":
        return path, "external-data/names-forbidden-file", "is a golden vector, the manifest or a model"
    if path not in bundle.files and folded(path) in bundle.guarded:
        return (
            path,
            "external-data/names-forbidden-file",
            "is another spelling of a vector, the manifest or a model",
        )
    if folded(path).endswith(MODEL_SUFFIXES):
        return path, "external-data/names-forbidden-file", "has the name of a model file"
    if path not in bundle.files:
        return path, "external-data/missing-file", "is not in the bundle"
    if path not in bundle.present:
        return path, "external-data/not-visible", "was not given to this job"
    return path, "", ""


def examine(
    records: list[TensorRecord], where: Mapping[int, str], bundle: Bundle, problems: Problems
) -> list[Placed]:
    """Return the records that a frame has room for, judged, and add the problems. ``where``: offset to place."""
    out: list[Placed] = []
    text = 0
    for record in records:
        found = _examine(record, where[record.start], bundle, problems)
        text += 100 + len(found.name) + len(found.location) + len(found.place)
        if len(out) < MAX_RECORDS and text <= MAX_FRAME_TEXT:
            out.append(found)
        else:
            problems.add("external-data/too-many", found.place, f"{len(records)} tensors have external data")
    return out


def _examine(record: TensorRecord, place: str, bundle: Bundle, problems: Problems) -> Placed:
    values: dict[str, str] = {}
    inside = True
    name = clip(text_of(record.name), 256)

    def problem(code: str, message: str) -> None:
        problems.add(code, place, f"tensor {name[:100]!r}: {message}")

    if record.location != EXTERNAL:
        problem("external-data/inconsistent", "has external data entries but is not marked external")
        inside = False
    for raw_key, raw_value in record.entries:
        key, value = text_of(raw_key), text_of(raw_value)
        if key in values:
            problem("external-data/duplicate-key", f"{key[:40]!r} stands twice")
            inside = False
        elif key not in KNOWN_KEYS:
            problem("external-data/unknown-key", f"{key[:40]!r} is no key of external data")
        values.setdefault(key, value)
    location = values.get("location", "")
    path, code, message = resolve(location, bundle)
    if code:
        problem(code, f"location {location[:200]!r} {message}")
        inside = False
    offset = _number("offset", values, problem)
    length = _number("length", values, problem)
    checksum = values.get("checksum", "")
    if "checksum" in values and not _CHECKSUM.fullmatch(checksum):
        problem("external-data/bad-checksum", f"checksum {checksum[:60]!r} is no SHA-1 in hexadecimal digits")
        checksum = ""
    if record.dtype == STRING_TYPE:
        problem("external-data/string-tensor", "strings cannot be stored externally")
    inside = inside and _in_range(record, offset, length, path, bundle.files.get(path), problem)
    if length is None and inside and all(dim >= 0 for dim in record.dims):
        length = record.expected_bytes()  # what the runtime takes
    start = offset or 0
    return Placed(
        record=record,
        name=name,
        place=place,
        model=bundle.model,
        location=location,
        path=path,
        offset=None if offset is None or offset < 0 else offset,
        length=None if length is None or length < 0 else length,
        start=start,
        stop=start + (length or 0),
        inside=inside,
        checksum=checksum.lower(),
    )


def _number(key: str, values: Mapping[str, str], problem: Any) -> int | None:
    """Return the number, None when absent, -1 when it is not plain decimal digits."""
    if key not in values:
        return None
    if not _DIGITS.fullmatch(values[key]):
        problem("external-data/bad-number", f"{key} {values[key][:60]!r} is no plain decimal number")
        return -1
    return int(values[key])


def _in_range(
    record: TensorRecord, offset: int | None, length: int | None, path: str, size: int | None, problem: Any
) -> bool:
    if -1 in {offset, length}:
        return False
    needed = record.expected_bytes() if all(dim >= 0 for dim in record.dims) else None
    if length is not None and needed is not None and length != needed:
        problem("external-data/length-mismatch", f"length {length}, but shape and type need {needed}")
    if size is None:
        return False
    begin = offset or 0
    span = length if length is not None else needed or 0
    if begin + max(span, needed or 0) > size:
        problem(
            "external-data/out-of-range",
            f"bytes {begin} to {begin + span} of {path[:200]!r}, which has {size} bytes",
        )
        return False
    return True
