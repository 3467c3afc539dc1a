"""The closed set of messages between the trusted side and the cell. Standard library only.

Wire form on a job's stream socket: one byte kind (``J`` JSON object, ``D`` raw data), four bytes
big-endian length, payload. The first frame travels inwards (the job's order, written by the
trusted side); every later frame travels outwards and is hostile.

JSON values are canonical (design, section 7): integers within +-(2**53 - 1), else decimal strings;
non-finite floats as the strings ``nan``, ``inf``, ``-inf``; text that is not valid Unicode with
``\\xNN`` escapes. :func:`clean` makes them so in the job; the trusted side checks, never repairs.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from typing import Any, Final, Protocol

HEADER: Final = struct.Struct("!cI")
JSON: Final = b"J"
DATA: Final = b"D"

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""RFC 8785, section 3.2.2.3: integers beyond this have no exact IEEE 754 double."""

MAX_JSON_FRAME: Final = 8 << 20
MAX_DATA_FRAME: Final = 1 << 20
MAX_TEXT: Final = 4096
"""Longest text that a job puts in a frame, in characters; longer text is cut by :func:`clip`."""

MODEL_DIR: Final = "/m"
"""Where a job finds its named files, below the private root."""

SCRATCH_DIR: Final = "/p"
"""Where a profiled run, and no other job, may write: onnxruntime's profiler knows only a file by its name."""
SCRATCH_BYTES: Final = 32 << 20
"""Size of that directory, which is memory."""

TYPES: Final[dict[str, tuple[str, ...]]] = {
    "unpack": ("walls", "entry*", "done"),
    "manifest": ("walls", "manifest", "done"),
    "signature": ("walls", "signature", "done"),
    "inspect": ("walls", "wire", "facts", "structure", "checker", "shapes", "done"),
    "assets": ("walls", "assets", "done"),
    "vectors": ("walls", "vectors", "done"),
    "run": (
        *("walls", "kernel*", "step*", "schema", "step*", "placement"),
        *("case*", "timing*", "case*", "probed*", "case*", "probed*", "profiled*", "done"),
    ),
    "reference": ("walls", "case*", "done"),
    "attack": ("walls", "note*", "done"),
}
"""Grammar of each job kind: frame types in order; ``*`` repeats zero or more times. ``refused``
may stand in the place of any frame after ``walls`` and ends the job, as ``done`` does. ``attack``
is the cell's own test job; the trusted side refuses to start it outside tests."""

LOAD_ORDER: Final = (
    "manifest-structure",
    "profile-bounds",
    "size",
    "digest",
    "provider",
    "builder",
    "cpu-allocator",
    "options",
    "session",
    "discover-schema",
    "exact-inputs",
    "exact-outputs",
    "receipts",
)
"""Steps of ``run`` (design, section 5). Each is announced by a ``step`` frame *after* it passed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one job. Bytes, seconds of CPU, counts."""

    cpu_seconds: int
    memory_bytes: int
    """Budget above the warm parent's own size, for anonymous memory."""
    mapped_bytes: int
    """Size of external data that onnxruntime maps private-writable (counts as RLIMIT_DATA)."""
    output_bytes: int
    """RLIMIT_FSIZE, and the cap on each result file."""
    open_files: int = 64
    threads: int = 8


class Channel(Protocol):
    """What a job body gets to talk to the trusted side."""

    def send(self, frame_type: str, body: dict[str, Any]) -> None:
        """Send one JSON frame. ``body`` must not hold the key ``t``."""

    def data(self, payload: bytes | memoryview) -> None:
        """Send raw bytes, split into frames of at most MAX_DATA_FRAME."""


class RefusedError(Exception):
    """A job body found that it cannot or must not go on. Becomes the ``refused`` frame."""

    def __init__(self, code: str, where: str, message: str, *, stage: str = "") -> None:
        super().__init__(f"{code} at {where}: {message}")
        self.code = code
        self.where = where
        self.message = message
        self.stage = stage


def clip(text: str, limit: int = MAX_TEXT) -> str:
    """Return ``text`` cut to ``limit`` characters, with the number of characters left out."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - 24]}…(+{len(text) - limit + 24} more)"


def text_of(value: bytes | str) -> str:
    r"""Return valid Unicode for hostile text: undecodable bytes and lone surrogates as ``\xNN``."""
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    return clip(raw.decode("utf-8", "backslashreplace"))


def clean(value: Any) -> Any:
    """Return ``value`` as canonical JSON data (see the module's text). Tuples become lists."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else str(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, bytes | str):
        return text_of(value)
    if isinstance(value, dict):
        return {text_of(str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [clean(item) for item in value]
    return text_of(str(value))


def encode(frame_type: str, body: dict[str, Any]) -> bytes:
    """Return the whole frame for one JSON message."""
    payload = json.dumps({"t": frame_type, **clean(body)}, ensure_ascii=False, allow_nan=False).encode()
    if len(payload) > MAX_JSON_FRAME:
        raise RefusedError("sandbox/frame-too-large", frame_type, f"{len(payload)} bytes of facts")
    return HEADER.pack(JSON, len(payload)) + payload
