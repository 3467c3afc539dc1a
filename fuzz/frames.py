"""Targets ``frames`` and ``entries``: what a job says on its socket; members of an archive that it streams.

Two bytes choose the kind of job and the size of the pieces in which the stream arrives. The job is hostile: any
bytes end in accepted frames or in ProtocolViolationError, the same whole as in pieces, and what is accepted can
be put on record and read again alike.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from typing import Any, Final

from acceptd.cell.collected import Collected
from acceptd.cell.protocol import Frame, Reader
from acceptd.errors import ProtocolViolationError, SealError
from acceptd.evidence import Entry, JobRecord
from acceptd.intake.stream import StreamSealer
from acceptd.intake.target import bundle_digest
from acceptd.policy.limits import LimitsTable
from acceptd.record.canonical import parse, plain_bytes
from fuzz.house import memory_directory
from sandbox import messages

KINDS: Final = tuple(sorted(messages.TYPES))
MOST: Final = 1 << 20
FRAMES: Final = 64
LIMITS: Final = LimitsTable(files=8, path_bytes=120, path_depth=6, file_bytes=1 << 14, bundle_bytes=1 << 15)


def check(raw: bytes) -> None:
    """Read a stream as a job's. Raises AssertionError, or whatever is not the protocol's own error."""
    if len(raw) < 2:
        return
    kind, step, stream = KINDS[raw[0] % len(KINDS)], raw[1] or 1, raw[2:]
    whole = fed(kind, [stream])
    pieces = fed(kind, [stream[at : at + step] for at in range(0, len(stream), step)])
    assert whole[1] == pieces[1], (whole[1], pieces[1])
    if whole[1]:
        return
    assert whole[0] == pieces[0]
    collected = Collected()
    for frame in whole[0]:
        collected.add(frame)
    record = JobRecord(kind=kind, ending="done", **collected.fields())
    written = plain_bytes(record.model_dump(mode="json", by_alias=True))
    again = JobRecord.model_validate(parse(written), strict=False)
    assert plain_bytes(again.model_dump(mode="json", by_alias=True)) == written


def fed(kind: str, pieces: list[bytes]) -> tuple[list[Frame], str]:
    """Return the frames, and what the reader refused (empty: nothing)."""
    reader, found = Reader(kind, max_bytes=MOST, max_frames=FRAMES), []
    try:
        for piece in pieces:
            found += reader.feed(piece)
        reader.close()
    except ProtocolViolationError as error:
        assert str(error)
        return found, str(error)
    return found, ""


def check_entries(raw: bytes) -> None:
    """Seal what an ``unpack`` job streams. What is sealed is what was said; of what is refused nothing is left."""
    if len(raw) < 2:
        return
    home = memory_directory()
    reader = Reader("unpack", max_bytes=MOST, max_frames=FRAMES)
    told: dict[str, bytes] = {}
    last = ""
    try:
        try:
            with StreamSealer(home / "bundle", LIMITS, None if raw[0] & 1 else 1 << 10) as sealer:
                for frame in [*reader.feed(raw[2:])]:
                    if isinstance(frame.body, Entry):
                        last = frame.body.path
                        told[last] = b""
                        sealer.entry(last, frame.body.size)
                    elif frame.type == "data":
                        told[last] += frame.data
                        sealer.data(frame.data)
                reader.close()
                sealed = sealer.finish("zip")
        except (ProtocolViolationError, SealError) as error:
            assert str(error)
            assert os.listdir(home) == []
            return
        assert sealed.digest == bundle_digest(sealed.files)
        kept = {one.path: (one.sha256, one.size) for one in sealed.files}
        top = "" if set(kept) <= set(told) else f"{next(iter(told)).partition('/')[0]}/"
        due = {path.removeprefix(top): data for path, data in told.items()}
        assert {path: (hashlib.sha256(data).hexdigest(), len(data)) for path, data in due.items()} == kept
        for path, data in due.items():
            status = os.lstat(home / "bundle" / path)
            assert (home / "bundle" / path).read_bytes() == data
            assert (status.st_mode, status.st_nlink) == (0o100444, 1)
    finally:
        shutil.rmtree(home)


def framed(*said: tuple[str, dict[str, Any]] | bytes) -> bytes:
    """Return a stream: JSON frames by type and body, and bytes as data frames."""
    out = b""
    for one in said:
        if isinstance(one, bytes):
            out += messages.HEADER.pack(messages.DATA, len(one)) + one
        else:
            out += messages.encode(*one)
    return out


WALLS: Final = ("walls", {"states": {"network": "enforced"}, "notes": {"network": "a note"}})
DONE: Final = ("done", {"peak_rss_bytes": 1, "baseline_rss_bytes": 1, "phases_ms": {"run": 0.5}})


def seeds() -> dict[str, bytes]:
    """Return a stream of every kind of job, made of a flawless submission's own jobs."""
    from tests import judge_world as world

    found: dict[str, bytes] = {}
    single = ("wire", "facts", "structure", "checker", "shapes", "assets", "signature", "vectors", "placement")
    for job in world.submission().jobs:
        said: list[tuple[str, dict[str, Any]]] = [WALLS]
        document = json.loads(job.model_dump_json(by_alias=True))
        if document["manifest"]:
            said.append(("manifest", {"document": document["manifest"]}))
        said += [(name, document[name]) for name in single[:-1] if document.get(name)]
        said += [("kernel", document["kernel"])] if document["kernel"] else []
        said += [("step", one) for one in document["steps"]]
        said += [("schema", document["schema_"])] if document["schema_"] else []
        said += [("placement", document["placement"])] if document["placement"] else []
        said += [("case", one) for one in document["cases"][:3]]
        said += [("timing", document["timing"])] if document["timing"] else []
        said += [("probed", one) for one in document["probed"][:2]]
        head = bytes((KINDS.index(job.kind), 40))
        found.setdefault(job.kind, head + framed(*said, DONE))
    refused = ("refused", {"code": "manifest/too-deep", "where": "bundle.toml:1", "message": "nested too deep"})
    found["refused"] = bytes((KINDS.index("manifest"), 7)) + framed(WALLS, refused)
    found["note"] = bytes((KINDS.index("attack"), 1)) + framed(WALLS, ("note", {"facts": {"a": [1, "x"]}}), DONE)
    return found


def entry_seeds() -> dict[str, bytes]:
    """Return archives as the job streams them."""
    one = ("entry", {"path": "bundle.toml", "size": 3})
    deep = ("entry", {"path": "a/b/model.onnx", "size": 70})
    empty = ("entry", {"path": "top/empty.onnx", "size": 0})
    up = ("entry", {"path": "../up", "size": 1})
    return {
        "two": b"\1\0" + framed(WALLS, one, b"a=1", deep, b"MZ" + b"\0" * 58, b"\x3c\0\0\0PE\0\0xx", DONE),
        "top": b"\0\0" + framed(WALLS, empty, ("entry", {"path": "top/bundle.toml", "size": 1}), b"x", DONE),
        "up": b"\1\0" + framed(WALLS, up, b"x", DONE),
        "twice": b"\1\0" + framed(WALLS, one, b"a=1", one, b"a=2", DONE),
        "short": b"\1\0" + framed(WALLS, one, b"a", DONE),
        "case": b"\1\0" + framed(WALLS, one, b"a=1", ("entry", {"path": "BUNDLE.toml", "size": 0}), DONE),
    }
