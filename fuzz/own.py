"""Target ``own``: small files and answers of acceptd's own making, which a crash or a disk may have spoilt.

The first byte chooses the reader: the loader's memory, progress and work of a daemon, a backup's list, kept
digests, what follows exports, a warm parent's first words, the comparer's answer, a node's words.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from acceptd.backup import document as backups
from acceptd.errors import InternalError, LoaderError, StateError
from acceptd.export import tally
from acceptd.fleet import nodes
from acceptd.release import memory, trust
from acceptd.retention.objects import marks_of
from acceptd.runtime import kept
from acceptd.statistics_facts import Statistics
from acceptd.work import progress_file, snapshot
from fuzz.house import memory_directory, only

_folder: Path | None = None


def check(raw: bytes) -> None:
    """Read ``raw`` by one of the readers."""
    if raw:
        READERS[raw[0] % len(READERS)](raw[1:])


def _place(*parts: str) -> Path:
    global _folder
    if _folder is None:
        _folder = memory_directory()
        (_folder / "team").mkdir()
        (_folder / ".cache" / "acceptd").mkdir(parents=True, mode=0o700)
        (_folder / "exports").mkdir()
    return _folder.joinpath(*parts)


def _written(raw: bytes, *parts: str) -> Path:
    path = _place(*parts)
    path.write_bytes(raw)
    path.chmod(0o600)
    return path


def _memory(raw: bytes) -> None:
    path = _written(raw, "seen.json")
    known = only(LoaderError, lambda: memory.recall(Path("/root"), "mosaic/small:production", path))
    if known is not None:
        assert known.number >= 0
        assert not known.release_digest or trust.is_sha256(known.release_digest)
    followed = only(LoaderError, lambda: memory.recall_keys(Path("/root"), path))
    if followed is not None:
        assert all(type(one) is str for pair in followed.items() for one in pair)
    seen = trust.Remembered(3, "4" * 64, 5, 6)
    if known is not None and only(LoaderError, lambda: memory.remember(_place("r"), "x/y:z", seen, path) or 1):
        assert memory.recall(_place("r"), "x/y:z", path).number >= 3
    memory.forget()


def _progress(raw: bytes) -> None:
    _written(raw, "team", progress_file.NAME)
    found = progress_file.read(_place(), "team", "drop")
    assert found is None or isinstance(found.words("team"), str)


def _snapshot(raw: bytes) -> None:
    _written(raw, snapshot.NAME)
    found = snapshot.read(_place(), 1)
    assert found is None or found["pid"] == 1


def _backup(raw: bytes) -> None:
    _written(raw, backups.NAME)
    found = only(StateError, lambda: backups.read(_place()))
    if found is not None:
        assert backups.Document.model_validate_json(found.text()) == found
        assert all(".." not in one.path.split("/") and not one.path.startswith("/") for one in found.files)


def _kept(raw: bytes) -> None:
    path = _written(raw, ".cache", "acceptd", "libraries.json")
    found = only((OSError, ValueError, TypeError), lambda: kept.read(path))
    if found:
        assert all(len(digest) == 64 for digest in found.values())


def _tally(raw: bytes) -> None:
    path = _written(raw, "exports", "hook-h.json")
    assert isinstance(tally._object(path), dict)
    assert 0 <= tally.cursor(_place(), "h", "log", 5) <= 5


def _hello(raw: bytes) -> None:
    from acceptd.cell import launcher

    only(InternalError, lambda: launcher.hello_of(raw))


def _answer(raw: bytes) -> None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return
    try:
        found = Statistics.model_validate(value)
    except ValidationError:
        return
    assert Statistics.model_validate(found.model_dump(mode="json")) == found


def _node(raw: bytes) -> None:
    text = raw.decode("utf-8", "replace")
    assert isinstance(nodes._object(text), dict)
    assert isinstance(nodes._list(text), list)
    assert nodes.seconds_between(text, "2026-11-29T12:00:00Z") >= 0


def _marks(raw: bytes) -> None:
    for digest, moment in marks_of(raw).items():
        assert trust.is_sha256(digest)
        assert nodes.seconds_between(moment, "9999-01-01T00:00:00Z") < float("inf")


READERS: Final[tuple[Callable[[bytes], Any], ...]] = (
    _memory, _progress, _snapshot, _backup, _kept, _tally, _hello, _answer, _node, _marks,
)  # fmt: skip


def seeds() -> dict[str, bytes]:
    """Return one good file for each reader."""
    row = {"number": 2, "release_digest": "1" * 64, "sequence": 7}
    seen = {"schema": 1, "revocations": 1, "channels": {"mosaic/small:production": row}, "keys": {"2" * 64: ""}}
    files = [{"path": "a/b", "sha256": "3" * 64, "size": 1, "mode": 384, "link": ""},
             {"path": "releases/current", "link": "000001"}]  # fmt: skip
    backup = {"schema": 1, "made_at": "now", "version": "1", "origin": "o", "entries": 1, "root": "4" * 64,
              "with_keys": False, "files": files}  # fmt: skip
    words = dict.fromkeys(
        ("python", "implementation", "machine", "onnxruntime", "build", "numpy", "telemetry"), "1"
    )
    hello = words | {"available_providers": ["C"], "threads": 1, "mapped": {"/a": [1, 2], "/b": None},
                     "anonymous": 5, "resident": 6}  # fmt: skip
    told = {"working": [{"drop": "drop", "stage": "run", "since": 1.5}],
            "waiting": [{"drop": "drop", "position": 1}], "waits": 2}  # fmt: skip
    stats = Statistics(outputs=[]).model_dump(mode="json")
    documents: list[Any] = [
        seen, told, {"pid": 1, "queue": {}}, backup, [[1, 2, 3, 4, 5, "5" * 64]], {"log": "log", "next": 3}, hello,
        stats, {"roles": ["worker"]}, {"6" * 64: "2026-11-29T12:00:00Z"},
    ]  # fmt: skip
    return {
        READERS[number].__name__.strip("_"): bytes([number]) + json.dumps(one).encode()
        for number, one in enumerate(documents)
    }
