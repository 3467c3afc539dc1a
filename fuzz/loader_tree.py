"""Target ``loader``: everything below a loader's root, changed by whoever may write there.

An input is a list of edits to the files of two genuine releases: other bytes, cut or lengthened ones, older
genuine files in the place of newer ones, links, directories in the place of files, files more or less. A loader
that has seen release 2 opens release 2 with exactly its bytes, or raises one of its own errors.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

from acceptd.errors import LoaderError
from acceptd.loader import open_release
from acceptd.record.canonical import canonical
from acceptd.release import memory, trust
from fuzz import house
from fuzz.house import CHANNEL, FILES, KEYRING, MODEL, NOW, memory_directory, only, signer
from fuzz.signed import rotation

MOST_EDITS: Final = 6
OLDER: Final = {"model.onnx": b"older" * 9, "data/labels.txt": b"reject\naccept\n"}


def _release(number: int, files: dict[str, bytes]) -> bytes:
    return house.seal(trust.RELEASE_TYPE, canonical(house.release(number, files)), signer("release"))


RELEASES: Final = {1: _release(1, OLDER), 2: _release(2, FILES)}
GENUINE: Final[dict[str, bytes]] = {
    **{f"release-{number}": data for number, data in RELEASES.items()},
    **{
        f"channel-{number}": house.seal(
            trust.CHANNEL_TYPE,
            canonical(house.channel(number, hashlib.sha256(RELEASES[number]).hexdigest(), 6 + number)),
            signer("release"),
        )
        for number in (1, 2)
    },
    "revocations-1": house.seal(trust.REVOCATIONS_TYPE, canonical(house.revocations(1)), signer("revocation")),
    "rotations-0": canonical({"schema": 1, "rotations": []}),
    "rotations-1": canonical({"schema": 1, "rotations": [rotation("ledger", 1, "", "next")[1]]}),
}
HOME: Final = f"releases/{MODEL}/{CHANNEL}"


def _object(files: dict[str, bytes]) -> str:
    return f"store/sha256/{house.release(1, files)['bundle_digest']}"


TREE: Final[dict[str, bytes]] = {
    f"{HOME}/channel.json": GENUINE["channel-2"],
    f"{HOME}/000001/release.json": RELEASES[1],
    f"{HOME}/000002/release.json": RELEASES[2],
    "revocations.json": GENUINE["revocations-1"],
    **{f"{_object(files)}/{path}": data for files in (FILES, OLDER) for path, data in files.items()},
}
PLACES: Final = (*sorted(TREE), "rotations.json", f"{HOME}/000002", f"{_object(FILES)}/more", _object(FILES), HOME)
SEEN: Final = trust.Remembered(2, hashlib.sha256(RELEASES[2]).hexdigest(), 8, 1)


def check(raw: bytes) -> None:
    """Make the tree, change it, open it twice: as is, and by memory."""
    try:
        edits = json.loads(raw)
    except (ValueError, RecursionError):
        return
    if not isinstance(edits, list):
        return
    root = memory_directory()
    try:
        for path, data in TREE.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        for edit in edits[:MOST_EDITS]:
            if isinstance(edit, dict):
                with contextlib.suppress(OSError, ValueError, TypeError, OverflowError):
                    _edit(root, edit)
        memory.forget()
        memory.remember(root, f"{MODEL}:{CHANNEL}", SEEN, None)
        for mode in ("mapped", "memory"):
            opened: Any = only(
                LoaderError,
                lambda mode=mode: open_release(root, MODEL, CHANNEL, keys=KEYRING, mode=mode, now=lambda: NOW),
            )
            if opened is not None:
                assert (opened.number, opened.release_digest) == (2, SEEN.release_digest)
                assert {one.path for one in opened.files} == set(FILES)
                assert {path: (opened.path / path).read_bytes() for path in FILES} == FILES
    finally:
        memory.forget()
        shutil.rmtree(root, ignore_errors=True)


def _edit(root: Path, edit: dict[str, Any]) -> None:
    path = root / PLACES[int(edit.get("place", 0)) % len(PLACES)]
    how, data = edit.get("how"), edit.get("data", "")
    if how == "older":
        _put(path, GENUINE[sorted(GENUINE)[int(data) % len(GENUINE)]])
    elif how == "bytes":
        _put(path, base64.b64decode(data))
    elif how == "json":
        _put(path, json.dumps(data).encode())
    elif how == "flip":
        found = bytearray(path.read_bytes())
        found[int(data) % len(found)] ^= 1 + int(data) % 255
        _put(path, bytes(found))
    elif how == "size":
        os.truncate(path, min(int(data), 1 << 16))
    elif how == "remove":
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    elif how == "folder":
        path.unlink()
        path.mkdir()
    elif how == "link":
        target = root / PLACES[int(data) % len(PLACES)]
        aside = path.with_name("aside")
        path.rename(aside)
        path.symlink_to(aside if int(data) % 2 else target)
    elif how == "hard":
        path.with_name("second").hardlink_to(path)
    elif how == "fifo":
        path.unlink()
        os.mkfifo(path)
    elif how == "mode":
        path.chmod(0o666)


def _put(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)


HOW: Final = ("older", "bytes", "json", "flip", "size", "remove", "folder", "link", "hard", "fifo", "mode")


def seeds() -> dict[str, bytes]:
    """Return no edit, one of each sort, and a replay of everything older."""
    values: dict[str, Any] = {"bytes": "e30=", "json": {"payload": "", "payloadType": "x", "signatures": []}}
    made = {
        how: json.dumps([{"place": 2, "how": how, "data": values.get(how, 3)}], sort_keys=True).encode()
        for how in HOW
    }
    names = sorted(GENUINE)
    replay = [{"place": PLACES.index(f"{HOME}/channel.json"), "how": "older", "data": names.index("channel-1")}]
    rotated = [{"place": PLACES.index("rotations.json"), "how": "older", "data": names.index("rotations-1")}]
    return made | {"none": b"[]", "replay": json.dumps(replay).encode(), "rotated": json.dumps(rotated).encode()}
