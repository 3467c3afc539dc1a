"""Objects in an S3-compatible store: the promises of every place; conditions; servers that lie, fail or dawdle."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import (
    ObjectDamagedError,
    ObjectMissingError,
    ObjectStoreError,
    ObjectsUnreachableError,
)
from acceptd.objectstore.inventory import blob_key, evidence_key
from acceptd.objectstore.objects import Objects, open_objects
from acceptd.objectstore.settings import ObjectsTable
from tests.fleet.s3 import S3, Asked, Proxy, Reply
from tests.objects_world import PARTS, SMALL, Promises, large, sealed_bundle, tree


def opened(endpoint: str, bucket: str, **more: Any) -> Objects:
    """Return objects below a prefix of a bucket, with short patience."""
    table = ObjectsTable(url=f"s3://{bucket}/fleet/a", endpoint=endpoint, **({"seconds": 20.0, "tries": 3} | more))
    return open_objects(table, Path("/nonexistent"))


class TestBucket(Promises):
    """Below a prefix of a bucket."""

    @pytest.fixture
    def bucket(self, s3: S3) -> str:
        return s3.bucket()

    @pytest.fixture
    def objects(self, s3: S3, bucket: str) -> Iterator[Objects]:
        with opened(s3.endpoint, bucket) as found:
            yield found

    @pytest.fixture
    def over(self, s3: S3, bucket: str) -> Callable[[str, bytes | None], None]:
        def write(key: str, data: bytes | None) -> None:
            if data is None:
                s3.delete(bucket, f"fleet/a/{key}")
            else:
                s3.put(bucket, f"fleet/a/{key}", data)

        return write

    def test_an_upload_that_is_given_up_leaves_nothing_in_parts(
        self, objects: Objects, s3: S3, bucket: str, tmp_path: Path
    ) -> None:
        data = large(2 * PARTS)
        directory, sealed = sealed_bundle(tmp_path, {"bundle.toml": b"", "w.bin": data})
        (directory / "w.bin").chmod(0o644)
        (directory / "w.bin").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(ObjectDamagedError):
            objects.put_bundle("sealed", directory, sealed)
        assert b"<UploadId>" not in s3.request("GET", f"/{bucket}?uploads")[1]

    def test_uploads_that_a_killed_process_began_are_swept_by_age(
        self, objects: Objects, s3: S3, bucket: str
    ) -> None:
        s3.request("POST", f"/{bucket}/fleet/a/{blob_key('0' * 64)}?uploads")
        s3.request("POST", f"/{bucket}/somebody/elses?uploads")
        objects.remote.sweep(0.0)
        assert s3.request("GET", f"/{bucket}?uploads")[1].count(b"<UploadId>") == 2
        assert objects.remote.sweep(time.time() + 86_400) == []
        left = s3.request("GET", f"/{bucket}?uploads")[1]
        assert left.count(b"<UploadId>") == 1
        assert b"somebody/elses" in left

    def test_a_refreshed_object_is_younger_and_the_same(self, objects: Objects, s3: S3) -> None:
        key = evidence_key(objects.put_blob(b"old"))
        before = objects.remote.look(key)
        assert before is not None
        time.sleep(1.1)  # the server's clock has whole seconds
        objects.remote.refresh(before)
        after = objects.remote.look(key)
        assert after is not None
        assert after.modified > before.modified
        assert objects.get_blob(hashlib.sha256(b"old").hexdigest(), 3) == b"old"


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 5 MiB, the least that S3 allows."""
    monkeypatch.setattr("acceptd.objectstore.s3.PART", 5 << 20)
    monkeypatch.setattr("acceptd.objectstore.objects.PART", 5 << 20)


# -- conditions --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_parts")
def test_every_write_asks_for_its_condition(s3_proxy: Proxy, tmp_path: Path) -> None:
    """PutObject and CompleteMultipartUpload bear If-None-Match, so that not even a race writes twice."""
    bucket = s3_proxy.server.bucket()
    directory, sealed = sealed_bundle(tmp_path, {"bundle.toml": b"", "w.bin": large((10 << 20) + 1)})
    with opened(s3_proxy.endpoint, bucket) as objects:
        objects.check()
        s3_proxy.seen.clear()
        objects.put_bundle("sealed", directory, sealed)
    writes = [one for one in s3_proxy.seen if one.method in {"PUT", "POST"}]
    single = [one for one in writes if one.method == "PUT" and "?" not in one.path]
    ended = [one for one in writes if one.method == "POST" and "uploads" not in one.path]
    assert len(single) == 2
    assert len(ended) == 1
    assert {one.headers.get("if-none-match") for one in single + ended} == {"*"}


@pytest.mark.parametrize("parts", [False, True])
def test_a_server_that_ignores_conditions_is_found_out_before_the_first_write(
    s3_proxy: Proxy, parts: bool
) -> None:
    """It says 200 to what is there: nothing of ours is written, and the line says which key would allow it."""
    bucket = s3_proxy.server.bucket()

    def ignoring(asked: Asked, reply: Reply) -> None:
        if reply.status == 412 and (asked.method == "POST") == parts:
            body = b"<CompleteMultipartUploadResult/>" if parts else b""
            reply.status, reply.body, reply.length = 200, body, len(body)

    s3_proxy.fault = ignoring
    with opened(s3_proxy.endpoint, bucket) as objects:
        with pytest.raises(ObjectStoreError, match=r"ignores If-None-Match on .*objects\.unconditional"):
            objects.put_blob(b"x")
        with pytest.raises(ObjectStoreError, match="ignores"):
            objects.check()
    assert not [key for key in s3_proxy.server.keys(bucket) if "probe" not in key]


def test_a_server_that_ignores_if_match_is_found_out(s3_proxy: Proxy) -> None:
    """Two promoters could otherwise each write over the other's pointer."""
    bucket = s3_proxy.server.bucket()

    def ignoring(asked: Asked, reply: Reply) -> None:
        if reply.status == 412 and "if-match" in asked.headers:
            reply.status, reply.body, reply.length = 200, b"", 0

    s3_proxy.fault = ignoring
    with opened(s3_proxy.endpoint, bucket) as objects, pytest.raises(ObjectStoreError, match="ignores If-Match"):
        objects.check()


def test_a_server_that_refuses_conditions_is_said_to(s3_proxy: Proxy) -> None:
    """501 NotImplemented, as older servers answer."""
    bucket = s3_proxy.server.bucket()

    def refusing(asked: Asked) -> Reply | None:
        if "if-none-match" not in asked.headers:
            return None
        body = b"<Error><Code>NotImplemented</Code><Message>A header you provided</Message></Error>"
        return Reply(501, [("Content-Type", "application/xml")], body, len(body))

    s3_proxy.before = refusing
    with opened(s3_proxy.endpoint, bucket) as objects, pytest.raises(ObjectStoreError, match="unconditional"):
        objects.put_blob(b"x")


def test_without_conditions_what_is_there_is_still_not_written_over(s3_proxy: Proxy) -> None:
    """`unconditional` looks first; and asks for none."""
    bucket = s3_proxy.server.bucket()
    with opened(s3_proxy.endpoint, bucket, unconditional=True) as objects:
        assert "not asked for" in objects.check()
        sha256 = objects.put_blob(b"x")
        s3_proxy.server.put(bucket, f"fleet/a/{evidence_key(sha256)}", b"y")
        with pytest.raises(ObjectDamagedError):
            objects.put_blob(b"x")
    assert not [one for one in s3_proxy.seen if "if-none-match" in one.headers]
    assert s3_proxy.server.get(bucket, f"fleet/a/{evidence_key(sha256)}") == b"y"


def test_an_answer_that_was_lost_after_the_write_is_no_second_write(s3_proxy: Proxy) -> None:
    """The server wrote and its answer did not arrive: the next try finds it, verifies it, and is content."""
    bucket = s3_proxy.server.bucket()
    lost: list[str] = []

    def losing(asked: Asked, reply: Reply) -> None:
        if asked.method == "PUT" and "/evidence/" in asked.path and not lost:
            lost.append(asked.path)
            reply.status, reply.body, reply.length = 500, b"", 0

    s3_proxy.fault = losing
    with opened(s3_proxy.endpoint, bucket) as objects:
        sha256 = objects.put_blob(b"once")
        assert objects.get_blob(sha256, 4) == b"once"
    assert len(lost) == 1
    assert len([one for one in s3_proxy.seen if one.method == "PUT" and "/evidence/" in one.path]) == 2


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("done", [True, False])
def test_an_upload_in_parts_whose_end_was_lost_counts_only_where_its_bytes_are_there(
    s3_proxy: Proxy, tmp_path: Path, done: bool
) -> None:
    """The upload is unknown at the second try: completed, and then it is read back; or given up by somebody."""
    ends: list[str] = []

    def ending(asked: Asked) -> Reply | None:
        if asked.method != "POST" or "uploadId" not in asked.path or "/blobs/" not in asked.path:
            return None
        ends.append(asked.path)
        if len(ends) == 1:
            return None if done else Reply(500, [], b"", 0)
        body = b"<Error><Code>NoSuchUpload</Code></Error>"
        return Reply(404, [], body, len(body))

    def losing(asked: Asked, reply: Reply) -> None:
        if len(ends) == 1 and asked.path == ends[0]:
            reply.status, reply.body, reply.length = 500, b"", 0

    directory, sealed = sealed_bundle(tmp_path, {"bundle.toml": b"", "w.bin": large((10 << 20) + 1)})
    with opened(s3_proxy.endpoint, s3_proxy.server.bucket()) as objects:
        objects.check()
        s3_proxy.before, s3_proxy.fault = ending, losing
        if done:
            objects.put_bundle("sealed", directory, sealed)
            assert objects.fetch_bundle("sealed", sealed.digest, tmp_path / "out") == sealed
        else:
            with pytest.raises(ObjectMissingError):
                objects.put_bundle("sealed", directory, sealed)
            assert not objects.has("sealed", sealed.digest)
    assert len(ends) == 2


# -- servers that lie, fail or dawdle ----------------------------------------------------------------


def _gets(asked: Asked) -> bool:
    return asked.method == "GET" and "/blobs/" in asked.path


def _longer(asked: Asked, reply: Reply) -> None:
    if _gets(asked):
        reply.body, reply.length = reply.body + b"!", len(reply.body) + 1


def _longer_untold(asked: Asked, reply: Reply) -> None:
    if _gets(asked):
        reply.body, reply.length = reply.body + b"!" * 100_000, None


def _shorter(asked: Asked, reply: Reply) -> None:
    if _gets(asked):
        reply.body, reply.length = reply.body[:-1], len(reply.body) - 1


def _truncated(asked: Asked, reply: Reply) -> None:
    if _gets(asked):
        reply.body = reply.body[: len(reply.body) // 2]


def _flipped(asked: Asked, reply: Reply) -> None:
    if _gets(asked) and reply.body:
        reply.body = reply.body[:-1] + bytes([reply.body[-1] ^ 1])


def _endless(asked: Asked, reply: Reply) -> None:
    if _gets(asked):
        reply.length, reply.endless = None, True


def _endless_error(asked: Asked, reply: Reply) -> None:
    if _gets(asked):
        reply.status, reply.length, reply.endless = 403, None, True


def _cut_error(asked: Asked, reply: Reply) -> None:
    if _gets(asked):
        reply.status, reply.body, reply.length = 400, b"<Error><Code>Slow", 1000


def _no_xml(asked: Asked, reply: Reply) -> None:
    if _gets(asked):
        reply.status, reply.body, reply.length = 400, b"\x1b[31m<<<&\n\xff", 11


def _elsewhere(asked: Asked, reply: Reply) -> None:
    if _gets(asked):
        reply.status, reply.body, reply.length = 302, b"", 0
        reply.headers = [("Location", "http://192.0.2.1/"), ("x-amz-bucket-region", "mars-1")]


def _other_range(asked: Asked, reply: Reply) -> None:
    """Answer every range with the whole object."""
    if _gets(asked) and reply.status == 206:
        reply.status = 200
        reply.headers = [(key, value) for key, value in reply.headers if key.lower() != "content-range"]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (_longer, ObjectDamagedError),
        (_longer_untold, ObjectDamagedError),
        (_shorter, ObjectDamagedError),
        (_truncated, ObjectsUnreachableError),
        (_flipped, ObjectDamagedError),
        (_endless, ObjectDamagedError),
        (_endless_error, ObjectStoreError),
        (_no_xml, ObjectStoreError),
        (_cut_error, ObjectsUnreachableError),
        (_elsewhere, ObjectStoreError),
        (_other_range, ObjectDamagedError),
    ],
)
@pytest.mark.parametrize("size", [1000, (5 << 20) + 1000])
@pytest.mark.usefixtures("small_parts")
def test_a_lying_server_ends_in_one_line(
    s3_proxy: Proxy, tmp_path: Path, fault: Any, kind: type[ObjectStoreError], size: int
) -> None:
    """Longer, shorter, other, endless, astray: nothing appears, and it ends."""
    if fault is _other_range and size < 5 << 20:
        pytest.skip("a small object comes whole")
    data = large(size)
    directory, sealed = sealed_bundle(tmp_path, {"bundle.toml": b"x", "w.bin": data})
    with opened(s3_proxy.endpoint, s3_proxy.server.bucket()) as objects:
        objects.put_bundle("sealed", directory, sealed)
        s3_proxy.fault = fault
        with pytest.raises(kind) as caught:
            objects.fetch_bundle("sealed", sealed.digest, tmp_path / "out")
        assert "\n" not in str(caught.value)
        assert "\x1b" not in str(caught.value)
        assert len(str(caught.value)) < 600
        assert sorted(one.name for one in tmp_path.iterdir()) == ["sealed", "sealed-source"]
        s3_proxy.fault = None
        assert objects.fetch_bundle("sealed", sealed.digest, tmp_path / "out") == sealed


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_server_sends_no_request_of_ours_elsewhere(s3_proxy: Proxy, status: int) -> None:
    """A redirection is an error: whoever has the store has not this host's way into its network."""
    other = Proxy(s3_proxy.server)
    body = b"<Error><Code>PermanentRedirect</Code><Endpoint>127.0.0.1</Endpoint></Error>"

    def sending(asked: Asked) -> Reply:
        return Reply(status, [("Location", f"{other.endpoint}{asked.path}")], body, len(body))

    with opened(s3_proxy.endpoint, s3_proxy.server.bucket(), tries=1) as objects:
        sha256 = objects.put_blob(b"evidence")
        s3_proxy.before = sending
        for work in (lambda: objects.get_blob(sha256, 100), lambda: objects.put_blob(b"more"), objects.check):
            with pytest.raises(ObjectStoreError):
                work()
    assert other.seen == []
    other.close()


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "HEAD"])
def test_a_server_that_fails_now_and_then_is_asked_again(s3_proxy: Proxy, tmp_path: Path, method: str) -> None:
    """Each second request fails; the work is done, and each request was tried a bounded number of times."""
    count: dict[tuple[str, str], int] = {}

    def failing(asked: Asked) -> Reply | None:
        key = (asked.method, asked.path)
        count[key] = count.get(key, 0) + 1
        failed = asked.method == method and count[key] == 1
        return Reply(503, [], b"<Error><Code>SlowDown</Code></Error>", 36) if failed else None

    directory, sealed = sealed_bundle(tmp_path, dict(SMALL) | {"w.bin": large((5 << 20) + 5)})
    s3_proxy.before = failing
    with opened(s3_proxy.endpoint, s3_proxy.server.bucket()) as objects:
        objects.put_bundle("sealed", directory, sealed)
        assert objects.fetch_bundle("sealed", sealed.digest, tmp_path / "out") == sealed


def test_a_server_that_always_fails_is_given_up(s3_proxy: Proxy) -> None:
    """After `tries` requests, in a line that says what the server said."""
    s3_proxy.before = lambda _: Reply(500, [], b"<Error><Code>InternalError</Code></Error>", 41)
    with opened(s3_proxy.endpoint, s3_proxy.server.bucket(), tries=2) as objects:
        with pytest.raises(ObjectsUnreachableError, match="500 InternalError"):
            objects.get_blob("0" * 64, 1)
        assert len(s3_proxy.seen) == 2
        with pytest.raises(ObjectsUnreachableError, match="500"):  # HEAD has no body, so no code
            objects.has("sealed", "0" * 64)


def test_a_server_that_drips_is_not_waited_for(s3_proxy: Proxy, tmp_path: Path) -> None:
    """A byte now and then keeps no deadline from passing: it is the request's, not the next byte's."""
    directory, sealed = sealed_bundle(tmp_path)

    def slow(asked: Asked, reply: Reply) -> None:
        if _gets(asked):
            reply.piece, reply.pause = 1, 0.4

    with opened(s3_proxy.endpoint, s3_proxy.server.bucket(), tries=1) as objects:
        objects.put_bundle("sealed", directory, sealed)
        s3_proxy.fault = slow
        remote: Any = objects.remote
        remote._table = remote._table.model_copy(update={"seconds": 1.0})
        with pytest.raises(ObjectsUnreachableError, match="within 1 s"):
            objects.fetch_bundle("sealed", sealed.digest, tmp_path / "out")


def test_closing_ends_what_waits(s3_proxy: Proxy) -> None:
    """A stop of the daemon waits for no server that hangs."""
    arrived = threading.Event()

    def hanging(asked: Asked) -> Reply | None:
        arrived.set()
        s3_proxy._stopped.wait(60)
        return None

    objects = opened(s3_proxy.endpoint, s3_proxy.server.bucket(), seconds=600.0)
    s3_proxy.before = hanging
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            objects.has("sealed", "0" * 64)
        except ObjectStoreError as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert arrived.wait(30)
    objects.close()
    thread.join(30)
    assert not thread.is_alive()
    assert "closed" in str(failures[0])


def test_what_cannot_be_reached_or_used_says_what_to_do(
    s3: S3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No server, no bucket, no credentials: three lines, each with its remedy."""
    with (
        opened("http://127.0.0.1:9", "bucket", tries=1) as objects,
        pytest.raises(ObjectsUnreachableError) as first,
    ):
        objects.check()
    assert "look at the store" in str(first.value)
    with opened(s3.endpoint, "no-such-bucket") as objects, pytest.raises(ObjectStoreError) as second:
        objects.put_blob(b"x")
    assert "make the bucket" in str(second.value)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with opened(s3.endpoint, s3.bucket()) as objects, pytest.raises(ObjectStoreError) as third:
        objects.check()
    assert "AWS_ACCESS_KEY_ID" in str(third.value)
    for one in (first, second, third):
        assert "\n" not in str(one.value)
        assert "acceptd-tests" not in str(one.value)


def test_a_bucket_full_of_objects_is_listed_page_by_page(s3: S3) -> None:
    """More keys than one page has."""
    with opened(s3.endpoint, s3.bucket()) as objects:
        for number in range(12):
            objects.remote.create(f"many/{number:02}", b"x")
        whole = objects.remote._call  # type: ignore[attr-defined]

        async def small(what: str, method: str, key: str | None, **more: Any) -> dict[str, Any]:
            more |= {"MaxKeys": 5} if method == "list_objects_v2" else {}
            return dict(await whole(what, method, key, **more))

        objects.remote._call = small  # type: ignore[attr-defined]
        assert [one.key for one in objects.remote.listed("many/")] == [f"many/{number:02}" for number in range(12)]


_BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + at, b"&%c;" % (97 + at) * 20) for at in range(9))
    + b"]><ListBucketResult><Name>&j;</Name></ListBucketResult>"
)
_ENTRY = b"<ListBucketResult><Contents>%s</Contents></ListBucketResult>"
_PAGE = b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>"


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("entities", _BOMB),
        ("deep", b"<ListBucketResult>" + b"<a>" * 500_000 + b"</a>" * 500_000 + b"</ListBucketResult>"),
        ("no end of pages", None),
        ("no list", b"<html>\x1b[2J</html>"),
        ("sizes", _ENTRY % b"<Key>fleet/a/x</Key><Size>1e9</Size>"),
        ("times", _ENTRY % b"<LastModified>now</LastModified>"),
    ],
)
def test_a_list_that_lies_ends(s3_proxy: Proxy, what: str, body: bytes | None) -> None:
    """In an error of one line, or in nothing that is ours: never without an end."""

    def lying(asked: Asked) -> Reply:
        said = body or _PAGE % len(s3_proxy.seen) + b"</ListBucketResult>"
        return Reply(200, [("Content-Type", "application/xml")], said, len(said))

    with opened(s3_proxy.endpoint, s3_proxy.server.bucket(), tries=2) as objects:
        s3_proxy.before = lying
        said = ""
        try:
            assert [one for one in objects.remote.listed("") if one.size >= 0] == []
        except ObjectStoreError as error:
            said = str(error)
        assert not {"\n", "\x1b"} & set(said)
        assert len(said) < 600
        assert len(s3_proxy.seen) < 10


def test_an_answer_without_an_end_ends(s3_proxy: Proxy) -> None:
    """A list, a pointer, an error: none is read beyond its bound, and no deadline is waited for."""

    def endless(asked: Asked, reply: Reply) -> None:
        reply.length, reply.endless, reply.body = None, True, b"<a>"

    with opened(s3_proxy.endpoint, s3_proxy.server.bucket(), tries=1) as objects:
        objects.remote.replace("home/current", b"1", "")
        s3_proxy.fault = endless
        with pytest.raises(ObjectStoreError, match="more than"):
            list(objects.remote.listed(""))
        with pytest.raises(ObjectStoreError):
            objects.remote.read("home/current", 100)


def test_a_large_bundle_needs_little_memory(s3: S3, tmp_path: Path) -> None:
    """Up and down again, 160 MiB with two parts at once, within 96 MiB above an idle process."""
    data = large(PARTS) * 10
    directory, sealed = sealed_bundle(tmp_path, {"bundle.toml": b"", "w.bin": data})
    code = """
import resource, sys
from pathlib import Path
from acceptd.objectstore.objects import open_objects
from acceptd.objectstore.settings import ObjectsTable
from acceptd.sealed_facts import Sealed
objects = open_objects(ObjectsTable(url=sys.argv[1], endpoint=sys.argv[2], together=2), Path("/nonexistent"))
objects.check()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sealed = Sealed.model_validate_json(sys.argv[4])
objects.put_bundle("sealed", Path(sys.argv[3]), sealed)
objects.fetch_bundle("sealed", sealed.digest, Path(sys.argv[5]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    url = f"s3://{s3.bucket()}"
    arguments = [url, s3.endpoint, str(directory), sealed.model_dump_json(), str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "out")["w.bin"] == data
    assert int(done.stdout) < 96 << 10


def test_a_missing_blob_is_missing_and_not_unreachable(s3: S3) -> None:
    """So that whoever waits for it knows that waiting is in vain."""
    with opened(s3.endpoint, s3.bucket()) as objects, pytest.raises(ObjectMissingError):
        objects.get_blob("0" * 64, 10)
