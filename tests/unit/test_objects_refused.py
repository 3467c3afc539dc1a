"""Where a place for objects fails: each error one line with its remedy, nothing half-written gets a key."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acceptd.errors import (
    ObjectDamagedError,
    ObjectMissingError,
    ObjectStoreError,
    ObjectsUnreachableError,
    StateError,
)
from acceptd.metrics.counting import Counting
from acceptd.objectstore import cache, inventory, s3_client
from acceptd.objectstore.cache import BundleCache
from acceptd.objectstore.counted import Counted
from acceptd.objectstore.local import Directory
from acceptd.objectstore.objects import Objects
from acceptd.objectstore.remote import Found
from tests.objects_world import sealed_bundle, tree

pytestmark = pytest.mark.unit

DATA = b"content"
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def place(tmp_path: Path) -> Directory:
    return Directory(tmp_path / "objects", make=True)


def refused(act: Callable[[], object], kind: type[ObjectStoreError], said: str, remedy: str = "") -> None:
    with pytest.raises(ObjectStoreError, match=said) as raised:
        act()
    assert type(raised.value) is kind
    assert "\n" not in str(raised.value)
    assert remedy in (raised.value.remedy or "")


def failing(number: int) -> Callable[..., Any]:
    def act(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return act


# -- what a server's errors mean


class ServerError(Exception):
    """An answer as botocore raises it."""

    def __init__(self, status: Any, code: str = "", message: str = "") -> None:
        super().__init__(message or code)
        self.response = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


def named(name: str, base: type[Exception] = Exception) -> Exception:
    return type(name, (base,), {})("no\x1b")


def behind(error: Exception) -> Exception:
    """The same, as s3fs translates it: an OSError whose cause says more."""
    outer = OSError("translated")
    outer.__cause__ = error
    return outer


CASES: dict[str, tuple[Exception, type[ObjectStoreError], str, str]] = {
    "no whole answer": (TimeoutError(), ObjectsUnreachableError, "no whole answer within 7 s", "tried again"),
    "a condition": (ServerError(412), s3_client.NotHeldError, "another one is there", ""),
    "no bucket": (ServerError(404, "NoSuchBucket"), ObjectStoreError, "does not exist", "mend objects.url"),
    "no object": (ServerError(404, "NoSuchKey"), ObjectMissingError, "there is none", ""),
    "elsewhere": (ServerError(301, "Moved"), ObjectStoreError, "sends us elsewhere", "set the region"),
    "unknown": (ServerError(401), ObjectStoreError, "refused", "AWS_ACCESS_KEY_ID"),
    "forbidden": (behind(ServerError(403, "AccessDenied")), ObjectStoreError, "refused: AccessDenied", "policy"),
    "failed": (ServerError(503), ObjectsUnreachableError, "the server failed", "tried again"),
    "too fast": (ServerError(400, "SlowDown"), ObjectsUnreachableError, "the server failed", "tried again"),
    "two at once": (ServerError(409), ObjectsUnreachableError, "the server failed", "tried again"),
    "no conditions": (ServerError(501, "NotImplemented"), ObjectStoreError, "cannot do that", "unconditional"),
    "no sense": (ServerError(400, "InvalidArgument", "why"), ObjectStoreError, "refused it .400 Inv.* why", ""),
    "no credentials": (named("NoCredentialsError"), ObjectStoreError, "no credentials: no", "AWS_ACCESS"),
    "a stranger": (named("SSLError"), ObjectStoreError, "no", "AWS_CA_BUNDLE"),
    "nonsense": (named("ResponseParserError"), ObjectStoreError, "said what cannot be meant", ""),
    "no number": (ValueError("x"), ObjectStoreError, "said what cannot be meant", ""),
    "cut off": (ConnectionResetError(), ObjectsUnreachableError, "ConnectionResetError", "tried again"),
    "our own": (ObjectDamagedError("as it was"), ObjectDamagedError, "as it was", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_each_error_of_a_server_is_told_for_what_it_means(name: str) -> None:
    """Whether it is tried again, is missing, or needs a person hangs on this."""
    error, kind, said, remedy = CASES[name]

    def act() -> None:
        raise s3_client.translated(error, "s3://b", "write k", 7.0)

    refused(act, kind, said, remedy)
    assert "\x1b" not in str(s3_client.translated(error, "s3://b", "write k", 7.0))


def test_an_error_whose_causes_go_in_a_circle_ends() -> None:
    one, other = OSError("a"), OSError("b")
    one.__cause__, other.__cause__ = other, one
    assert isinstance(s3_client.translated(one, "s3://b", "look", 1.0), ObjectsUnreachableError)
    odd: Any = ServerError(500)
    odd.response = {"Error": 7, "ResponseMetadata": []}
    assert type(s3_client.translated(odd, "s3://b", "look", 1.0)) is ObjectsUnreachableError


@pytest.mark.parametrize(("size", "seconds"), [(None, None), (-1, "yesterday"), (True, 7), ("12", [])], ids=str)
def test_a_size_and_an_age_that_a_server_makes_up_are_none(size: object, seconds: object) -> None:
    assert s3_client.told_size(size) == -1
    assert s3_client.told_seconds({"LastModified": seconds}) == 0.0


# -- a directory


def test_a_volume_that_is_not_mounted_is_no_empty_place(tmp_path: Path) -> None:
    gone = Directory(tmp_path / "volume", make=False)
    for act in (lambda: gone.look("k"), lambda: gone.create("k", b""), lambda: list(gone.listed(""))):
        refused(act, ObjectStoreError, "does not exist", "mount its volume")
    assert not (tmp_path / "volume").exists()
    (tmp_path / "file").write_bytes(b"")
    refused(
        lambda: Directory(tmp_path / "file", make=True).create("k", b""), ObjectDamagedError, "leads elsewhere"
    )


def test_a_full_disk_leaves_no_object_and_no_half_one(place: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place.create("a/one", b"1")
    with monkeypatch.context() as patch:
        patch.setattr("acceptd.objectstore.local.write_all", failing(errno.ENOSPC))
        refused(lambda: place.create("a/two", b"2"), ObjectStoreError, "No space left", "make room there")
        refused(lambda: place.replace("a/two", b"2", ""), ObjectStoreError, "No space left", "make room there")
    assert [one.key for one in place.listed("")] == ["a/one"]
    assert os.listdir(Path(place.where.removeprefix("file://")) / "tmp") == []


def test_a_copy_that_is_not_what_was_sealed_gets_no_key(place: Directory, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(DATA)
    for size, digest in ((len(DATA), "00" * 32), (len(DATA) + 1, DIGEST), (len(DATA) - 1, DIGEST)):
        with (tmp_path / "f").open("rb") as file:
            refused(
                lambda file=file, size=size, digest=digest: place.create_from("k", file.fileno(), size, digest),
                ObjectDamagedError,
                "not the one that was sealed",
            )
    with (tmp_path / "f").open("rb") as file:
        assert place.create_from("k", file.fileno(), len(DATA), DIGEST)
    assert [one.key for one in place.listed("")] == ["k"]


def test_a_copy_for_which_there_is_no_room_is_told_with_the_place(
    place: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StateError("no space left", remedy="none")

    (tmp_path / "f").write_bytes(DATA)
    monkeypatch.setattr("acceptd.objectstore.local.Copier.copy", full)
    with (tmp_path / "f").open("rb") as file:
        refused(
            lambda: place.create_from("k", file.fileno(), len(DATA), DIGEST),
            ObjectStoreError,
            "objects: no space left",
            "make room there",
        )
    assert list(place.listed("")) == []


def test_a_directory_that_goes_each_time_it_is_made_is_given_up(
    place: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process removes what is empty: tried again, eight times and no more."""
    turns = []

    def made(root: int, folder: str) -> None:
        turns.append(folder)

    assert place.create("first", b"")
    monkeypatch.setattr(place, "_made", made)
    refused(lambda: place.create("a/b", b"x"), ObjectStoreError, "No such file", "look at the directory")
    assert turns.count("a") == 8
    monkeypatch.undo()
    assert place.create("a/b", b"x")


@pytest.mark.parametrize("what", ["link", "queue", "folder"])
def test_what_is_no_regular_file_is_no_object(place: Directory, what: str) -> None:
    root = Path(place.where.removeprefix("file://"))
    assert place.create("first", b"")
    if what == "link":
        (root / "k").symlink_to("first")
    elif what == "queue":
        os.mkfifo(root / "k")
    else:
        (root / "k").mkdir()
    for act in (lambda: place.look("k"), lambda: place.read("k", 9), lambda: list(place.chunks("k", 0))):
        with pytest.raises(ObjectStoreError):
            act()
    assert "k" not in [one.key for one in place.listed("")]


def test_an_object_that_shrinks_or_grows_while_it_is_read_is_damaged(
    place: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place.create("k", DATA)
    refused(lambda: place.read("k", 3), ObjectDamagedError, "has 7 bytes; at most 3 are expected")
    refused(lambda: list(place.chunks("k", 8)), ObjectDamagedError, "has 7 bytes, not 8")
    read = os.read
    for given, kind, said in (
        (lambda fd, count: b"", ObjectDamagedError, "ended 7 bytes before its end"),
        (lambda fd, count: read(fd, count) or b"+", ObjectDamagedError, "grew while it was read"),
        (failing(errno.EIO), ObjectStoreError, "cannot be read: Input/output error"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr("acceptd.objectstore.local.os.read", given)
            refused(lambda: place.read("k", 9), kind, said)
    assert place.read("k", 9)[0] == DATA


def test_a_folder_that_cannot_be_listed_or_touched_is_told_and_not_left_out(
    place: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object that is not listed would count as nobody's, and a collection goes by the list."""
    assert place.create("a/k", DATA)
    (found,) = place.listed("a/")
    with monkeypatch.context() as patch:
        patch.setattr("acceptd.objectstore.local.os.scandir", failing(errno.EACCES))
        refused(lambda: list(place.listed("")), ObjectStoreError, "Permission denied", "who may write to it")
    with monkeypatch.context() as patch:
        patch.setattr("acceptd.objectstore.local.os.utime", failing(errno.EROFS))
        refused(lambda: place.refresh(found), ObjectStoreError, "Read-only file system", "who may write to it")
    with monkeypatch.context() as patch:
        patch.setattr("acceptd.objectstore.local.os.unlink", failing(errno.EACCES))
        refused(lambda: place.remove("a/k"), ObjectStoreError, "Permission denied")
    assert [one.key for one in place.listed("")] == ["a/k"]
    place.remove("a/never")
    place.remove("b/never")
    place.remove("a/k")
    assert list(place.listed("")) == []


def test_a_directory_where_a_name_can_be_taken_twice_is_found_out(
    place: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place.check().startswith("writable")

    def twice(root: int, name: str, key: str) -> bool:
        place._drop(root, name)
        return True

    monkeypatch.setattr(place, "_name", twice)
    refused(place.check, ObjectStoreError, "a name that is taken can be taken again")


# -- names, bundles, counts and a node's cache


def test_keys_of_what_there_is_not_are_refused() -> None:
    nothing: Any = "../x"
    for act, said in (
        (lambda: inventory.blob_key("AB" * 32), "is no SHA-256"),
        (lambda: inventory.evidence_key(DIGEST, nothing), "there is no shelf '../x'"),
        (lambda: inventory.inventory_key(nothing, DIGEST), "there is no area '../x'"),
    ):
        refused(act, ObjectStoreError, said)


def test_a_bundle_that_is_not_what_was_sealed_is_not_put(place: Directory, tmp_path: Path) -> None:
    directory, sealed = sealed_bundle(tmp_path)
    objects = Objects(place, 2)
    refused(
        lambda: objects.put_bundle("sealed", directory, sealed.model_copy(update={"digest": "00" * 32})),
        ObjectDamagedError,
        "do not give its digest",
    )
    refused(lambda: objects.put_bundle("sealed", tmp_path / "none", sealed), ObjectStoreError, "No such file")
    labels = directory / "data/sub/labels.txt"
    labels.parent.chmod(0o755)
    labels.unlink()
    refused(lambda: objects.put_bundle("sealed", directory, sealed), ObjectDamagedError, "No such file")
    os.mkfifo(labels)
    refused(
        lambda: objects.put_bundle("sealed", directory, sealed), ObjectDamagedError, "not the one that was sealed"
    )
    assert not [one.key for one in place.listed("sealed/")]


def test_every_call_passes_through_the_count_and_fails_as_it_failed(place: Directory) -> None:
    calls: list[tuple[str, bool]] = []

    class Heard(Counting):
        def object_call(self, call: str, seconds: float, *, failed: bool = False) -> None:
            calls.append((call, failed))

    counted = Counted(place, Heard())
    assert counted.create("k", DATA)
    (found,) = counted.listed("")
    counted.refresh(found)
    assert counted.replace("k", b"2", found.tag) is False
    refused(lambda: counted.read("none", 9), ObjectMissingError, "does not exist")
    refused(lambda: counted.refresh(Found("none", 0, "", 0.0)), ObjectMissingError, "does not exist")
    refused(lambda: counted.read("k", 3), ObjectDamagedError, "at most 3 are expected")
    assert [one for one in calls if one[1]] == [("read", True)]  # what is missing did not fail
    assert counted.sweep(0.0) == []
    counted.remove("k")
    counted.close()
    assert list(place.listed("")) == []


def test_a_cache_that_cannot_be_cleared_or_filled_says_what_to_do(
    place: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, sealed = sealed_bundle(tmp_path)
    objects = Objects(place, 2)
    objects.put_bundle("sealed", directory, sealed)
    root = tmp_path / "cache"
    held = BundleCache(root, objects, 1 << 20)
    with monkeypatch.context() as patch:
        patch.setattr(cache, "write_exclusive", failing(errno.ENOSPC))
        with pytest.raises(StateError, match="No space left") as raised, held.hold("sealed", sealed.digest):
            pass
        assert raised.value.remedy == "make room for the cache"
    with held.hold("sealed", sealed.digest) as there:
        assert tree(Path(there)) == tree(directory)
    held.close()
    monkeypatch.setattr(cache, "remove_temporaries", lambda _: [f"{root}/.tmp-1: Operation not permitted"])
    with pytest.raises(StateError, match=r"not removed: .*Operation not permitted") as raised:
        BundleCache(root, objects, 1 << 20)
    assert raised.value.remedy == "remove it by hand"


def test_an_answer_without_an_end_is_cut_off_and_its_connection_closed() -> None:
    import asyncio

    ended = []

    def answer(parts: list[bytes]) -> Any:
        async def read(_: int) -> bytes:
            return parts.pop() if parts else b""

        content = SimpleNamespace(read=read)
        return SimpleNamespace(
            content=content, close=lambda: ended.append("closed"), release=lambda: ended.append("kept")
        )

    assert asyncio.run(s3_client._bounded(answer([b"b", b"a"]))) == b"ab"
    many = answer([b"x" * (1 << 20)] * 5)
    refused(lambda: asyncio.run(s3_client._bounded(many)), ObjectStoreError, "more than 4194304 bytes")
    assert ended == ["kept", "closed"]
