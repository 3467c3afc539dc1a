"""An S3-compatible bucket as a place for objects, through s3fs; conditions, bounds and retries are ours.

One request carries 16 MiB at most and has one deadline, its body included; what may pass is tried again with a
pause that doubles. ``If-None-Match: *`` stands on PutObject and on CompleteMultipartUpload (Amazon S3 User Guide,
"Conditional writes"); whether the server keeps it is proved before the first write. A plain ``If-Match`` guards
what is replaced. Everything that a server says is hostile until a digest held.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

from acceptd.errors import (
    ObjectDamagedError,
    ObjectMissingError,
    ObjectStoreError,
    ObjectsUnreachableError,
)
from acceptd.objectstore import s3_client
from acceptd.objectstore.remote import PART, Found, read_part, same_file
from acceptd.objectstore.s3_client import told_seconds, told_size, translated
from acceptd.objectstore.settings import ObjectsTable, parsed

T = TypeVar("T")
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 15.0
_SECONDS_OF_A_PART: Final = 2.0
"""More for the request that ends an upload, for each of its parts: a store may put them together meanwhile."""
_MOST_PARTS: Final = 10_000
"""Of one multipart upload: S3's own limit."""
_PROBES: Final = ("probe/once", "probe/once-in-parts")
_STEP: Final = 1 << 20


class Bucket:
    """Objects below a prefix of one bucket. As :class:`acceptd.objectstore.remote.Remote`, for many threads."""

    def __init__(self, table: ObjectsTable) -> None:
        place = parsed(table.url)
        self._table, self._bucket = table, place.bucket
        self._prefix = f"{place.path}/" if place.path else ""
        self.where = table.url.rstrip("/") + (f" at {table.endpoint}" if table.endpoint else "")
        self._fs = s3_client.connected(table)
        self._proved = threading.Lock()
        self._conditional: bool | None = False if table.unconditional else None
        self._live: set[Future[Any]] = set()
        self._closed = False

    # -- the promises ---------------------------------------------------------------------------------

    def check(self) -> str:
        """As :meth:`Remote.check`: eight small requests where the two objects of the proof are there already."""
        if self._table.unconditional:
            self.look(_PROBES[0])
            return "reachable; conditions are not asked for (objects.unconditional)"
        with self._proved:
            self._prove()
            self._conditional = True
        return "reachable, written once by If-None-Match"

    def _prove(self) -> None:
        for key, parts in zip(_PROBES, (False, True), strict=True):
            data = b"acceptd proves here that nothing is written twice\n"
            for _ in range(2 if self.look(key) is None else 1):
                written = self._run(
                    self._upload(key, data) if parts else self._put(key, data, {"IfNoneMatch": "*"})
                )
            if written:
                raise self._ignored("If-None-Match", parts)
        if self._run(self._put(_PROBES[0], data, {"IfMatch": '"00000000000000000000000000000000"'})):
            raise self._ignored("If-Match", False)

    def _ignored(self, header: str, parts: bool) -> ObjectStoreError:
        act = "CompleteMultipartUpload" if parts else "PutObject"
        return ObjectStoreError(
            f"{self.where} ignores {header} on {act}: what is written once could be written over",
            remedy="use a store that keeps conditions, or accept that by objects.unconditional = true",
        )

    def _conditions(self) -> bool:
        """Say whether writes bear conditions; proved once for each process."""
        if self._conditional is None:
            self.check()
        return bool(self._conditional)

    # -- one object -----------------------------------------------------------------------------------

    def look(self, key: str) -> Found | None:
        """As :meth:`Remote.look`."""
        try:
            told = self._run(self._call(f"look at {key}", "head_object", key))
        except ObjectMissingError:
            return None
        return Found(key, told_size(told.get("ContentLength")), str(told.get("ETag", "")), told_seconds(told))

    def create(self, key: str, data: bytes) -> bool:
        """As :meth:`Remote.create`."""
        if self._conditions():
            return self._run(self._put(key, data, {"IfNoneMatch": "*"}))
        return self.look(key) is None and self._run(self._put(key, data, {}))

    def create_from(self, key: str, source: int, size: int, sha256: str) -> bool:
        """As :meth:`Remote.create_from`; parts go side by side while the next ones are hashed."""
        conditional = self._conditions()
        if size <= PART:
            data = read_part(source, size + 1)
            same_file(key, hashlib.sha256(data).hexdigest(), len(data), sha256, size)
            return self.create(key, data)
        if not conditional and self.look(key) is not None:
            return False
        return self._parted(key, source, size, sha256, {"IfNoneMatch": "*"} if conditional else {})

    def _parted(self, key: str, source: int, size: int, sha256: str, condition: dict[str, str]) -> bool:
        step = max(PART, -(-size // _MOST_PARTS))
        upload = self._run(self._begin(key))
        pending: deque[Future[dict[str, Any]]] = deque()
        parts: list[dict[str, Any]] = []
        digest, total = hashlib.sha256(), 0
        try:
            while data := read_part(source, step):
                total += len(data)
                if total > size:
                    break
                number = len(parts) + len(pending) + 1
                pending.append(self._start(self._part(key, upload, number, data)))
                digest.update(data)  # while the part is under way
                if len(pending) >= self._table.together:
                    parts.append(self._wait(pending.popleft()))
            same_file(key, digest.hexdigest(), total, sha256, size)
            while pending:
                parts.append(self._wait(pending.popleft()))
            written = self._run(self._complete(key, upload, parts, condition))
        except BaseException:
            for one in pending:
                one.cancel()
            self._abort(key, upload)
            raise
        if not written:
            self._abort(key, upload)
        return written

    def read(self, key: str, most: int) -> tuple[bytes, str]:
        """As :meth:`Remote.read`."""
        return self._run(self._whole(key, most))

    def chunks(self, key: str, size: int) -> Iterator[bytes]:
        """As :meth:`Remote.chunks`: the next parts are fetched while one is hashed."""
        if size <= PART:
            yield self._run(self._range(key, 0, size, size))
            return
        starts = iter(range(0, size, PART))
        pending: deque[Future[bytes]] = deque()
        try:
            while True:
                while len(pending) < self._table.together and (at := next(starts, None)) is not None:
                    pending.append(self._start(self._range(key, at, min(PART, size - at), size)))
                if not pending:
                    return
                yield self._wait(pending.popleft())
        finally:
            for one in pending:
                one.cancel()

    def replace(self, key: str, data: bytes, tag: str) -> bool:
        """As :meth:`Remote.replace`."""
        if self._conditions():
            return self._run(self._put(key, data, {"IfMatch": tag} if tag else {"IfNoneMatch": "*"}))
        found = self.look(key)
        return (found.tag if found else "") == tag and self._run(self._put(key, data, {}))

    def listed(self, prefix: str) -> Iterator[Found]:
        """As :meth:`Remote.listed`."""
        token: dict[str, Any] = {}
        while True:
            told = self._run(
                self._call(
                    f"list {prefix or 'all'}", "list_objects_v2", None, Prefix=f"{self._prefix}{prefix}", **token
                )
            )
            contents = told.get("Contents", ())
            for one in contents:
                key = str(one.get("Key", ""))
                if key.startswith(f"{self._prefix}{prefix}"):
                    yield Found(
                        key.removeprefix(self._prefix),
                        told_size(one.get("Size")),
                        str(one.get("ETag", "")),
                        told_seconds(one),
                    )
            after = told.get("NextContinuationToken")
            if not told.get("IsTruncated") or not after:
                return
            if not contents:  # or a server could go on for ever
                raise ObjectStoreError(f"{self.where}: a page of its list holds nothing, and more is to come")
            token = {"ContinuationToken": str(after)}

    def refresh(self, found: Found) -> None:
        """As :meth:`Remote.refresh`: by a copy onto itself in the store, of exactly what was looked at."""
        if found.size > 5 << 30:  # CopyObject takes 5 GiB; what is larger keeps its age
            return
        copy = {"Bucket": self._bucket, "Key": f"{self._prefix}{found.key}"}
        self._run(
            self._call(
                f"refresh {found.key}",
                "copy_object",
                found.key,
                CopySource=copy,
                CopySourceIfMatch=found.tag,
                MetadataDirective="REPLACE",
                ContentType="application/octet-stream",
            )
        )

    def remove(self, key: str) -> None:
        """As :meth:`Remote.remove`."""
        try:
            self._run(self._call(f"remove {key}", "delete_object", key))
        except ObjectMissingError:
            return

    def sweep(self, before: float) -> list[str]:
        """As :meth:`Remote.sweep`: uploads in parts that nobody completed."""
        told = self._run(self._call("list uploads", "list_multipart_uploads", None, Prefix=self._prefix))
        left: list[str] = []
        for one in told.get("Uploads", ()):
            begun, key = one.get("Initiated"), str(one.get("Key", ""))
            if begun is not None and begun.timestamp() < before and key.startswith(self._prefix):
                try:
                    self._run(self._aborted(key.removeprefix(self._prefix), str(one.get("UploadId", ""))))
                except ObjectStoreError as error:
                    left.append(str(error))
        return left

    def close(self) -> None:
        """As :meth:`Remote.close`."""
        self._closed = True
        for one in list(self._live):
            one.cancel()

    # -- requests -------------------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self._closed:
            work.close()
            raise ObjectStoreError(f"{self.where}: closed")
        future = asyncio.run_coroutine_threadsafe(work, self._fs.loop)
        self._live.add(future)
        future.add_done_callback(self._live.discard)
        return future

    def _wait(self, future: Future[T]) -> T:
        try:
            return future.result()
        except CancelledError:
            raise ObjectStoreError(f"{self.where}: closed") from None
        except BaseException:
            future.cancel()
            raise

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._wait(self._start(work))

    async def _again(self, what: str, work: Callable[[], Awaitable[T]], more: float = 0.0) -> T:
        """Do one request until it worked, or failed for good, or as often as is allowed; ``more``: seconds."""
        seconds = self._table.seconds + more
        for turn in range(self._table.tries):
            if turn:
                pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (turn - 1))
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads the load
            try:
                async with asyncio.timeout(seconds):
                    return await work()
            except Exception as error:
                found = translated(error, self.where, what, seconds)
                if not isinstance(found, ObjectsUnreachableError) or turn + 1 == self._table.tries:
                    raise found from error
        raise AssertionError("tries is at least 1")

    async def _call(
        self, what: str, method: str, key: str | None, seconds: float = 0.0, **more: Any
    ) -> dict[str, Any]:
        named = {} if key is None else {"Key": f"{self._prefix}{key}"}

        async def once() -> dict[str, Any]:
            told = await self._fs._call_s3(method, Bucket=self._bucket, **named, **more)
            return dict(told)

        return await self._again(what, once, seconds)

    async def _put(self, key: str, data: bytes, condition: dict[str, Any]) -> bool:
        """Write one object by one request; False where its condition does not hold."""
        try:
            await self._call(f"write {key}", "put_object", key, Body=data, **condition)
        except s3_client.NotHeldError:
            return False
        except ObjectMissingError:
            if "IfMatch" in condition:  # nothing is there to be replaced
                return False
            raise
        return True

    async def _begin(self, key: str) -> str:
        told = await self._call(f"write {key}", "create_multipart_upload", key)
        return str(told["UploadId"])

    async def _part(self, key: str, upload: str, number: int, data: bytes) -> dict[str, Any]:
        what = f"write part {number} of {key}"
        told = await self._call(what, "upload_part", key, UploadId=upload, PartNumber=number, Body=data)
        return {"PartNumber": number, "ETag": told.get("ETag", "")}

    async def _complete(
        self, key: str, upload: str, parts: list[dict[str, Any]], condition: dict[str, str]
    ) -> bool:
        more = {"UploadId": upload, "MultipartUpload": {"Parts": parts}, **condition}
        try:
            seconds = _SECONDS_OF_A_PART * len(parts)
            await self._call(f"write {key}", "complete_multipart_upload", key, seconds, **more)
        except s3_client.NotHeldError:
            return False
        except ObjectMissingError:
            # Completed by a try whose answer was lost: what is there is read and hashed, as another's would be.
            await self._call(f"look at {key}", "head_object", key)
            return False
        return True

    async def _upload(self, key: str, data: bytes) -> bool:
        upload = await self._begin(key)
        written = False
        try:
            part = await self._part(key, upload, 1, data)
            written = await self._complete(key, upload, [part], {"IfNoneMatch": "*"})
        finally:
            if not written:
                await self._aborted(key, upload)
        return written

    async def _aborted(self, key: str, upload: str) -> None:
        try:
            await self._call(f"give up {key}", "abort_multipart_upload", key, UploadId=upload)
        except ObjectMissingError:
            return

    def _abort(self, key: str, upload: str) -> None:
        """Give up an upload; where that fails too, the sweep does it by its age."""
        try:
            self._run(self._aborted(key, upload))
        except ObjectStoreError:
            return

    async def _whole(self, key: str, most: int) -> tuple[bytes, str]:
        async def once() -> tuple[bytes, str]:
            told = await self._fs._call_s3("get_object", Bucket=self._bucket, Key=f"{self._prefix}{key}")
            size = told_size(told.get("ContentLength"))
            if size > most:
                told["Body"].close()
                raise ObjectDamagedError(f"{self.where}: {key} has {size} bytes; at most {most} are expected")
            return await self._body(key, told["Body"], size), str(told.get("ETag", ""))

        return await self._again(f"read {key}", once)

    async def _range(self, key: str, first: int, length: int, size: int) -> bytes:
        """Return ``length`` bytes from ``first`` on of an object that must have ``size`` bytes."""
        part = length != size
        more = {"Range": f"bytes={first}-{first + length - 1}"} if part else {}

        async def once() -> bytes:
            told = await self._fs._call_s3("get_object", Bucket=self._bucket, Key=f"{self._prefix}{key}", **more)
            whole = (
                str(told.get("ContentRange", "")).rpartition("/")[2] if part else str(told.get("ContentLength"))
            )
            if whole != str(size) or told_size(told.get("ContentLength")) != length:
                told["Body"].close()
                raise ObjectDamagedError(f"{self.where}: {key} has another size than its {size} bytes")
            return await self._body(key, told["Body"], length)

        return await self._again(f"read {key}", once)

    async def _body(self, key: str, body: Any, size: int) -> bytes:
        """Return a body of exactly ``size`` bytes; never hold more than one step beyond it."""
        data = bytearray()
        try:
            while len(data) <= size and (part := await body.read(min(_STEP, size + 1 - len(data)))):
                data += part
        finally:
            if len(data) != size:
                body.close()
        if len(data) > size:
            raise ObjectDamagedError(f"{self.where}: {key} goes on after its {size} bytes")
        if len(data) < size:
            raise ObjectsUnreachableError(f"{self.where}: {key} ended after {len(data)} of {size} bytes")
        return bytes(data)
