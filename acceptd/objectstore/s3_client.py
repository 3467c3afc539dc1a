"""The client of an S3-compatible server: how it is made, how much it takes from a server, what its errors mean."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from types import SimpleNamespace
from typing import Any, Final

from acceptd.errors import (
    ConfigError,
    NoThreadError,
    ObjectMissingError,
    ObjectStoreError,
    ObjectsUnreachableError,
    UsageError,
)
from acceptd.intake.paths import shown
from acceptd.loop import Loop
from acceptd.objectstore.settings import ObjectsTable
from acceptd.threads import Thread

MOST_TOLD: Final = 4 << 20
"""Bytes of an answer that is no object: a page of a list, an error. A thousand keys of 1 KiB are 1.3 MiB."""
_CONNECT_SECONDS: Final = 10.0
_making = threading.Lock()
_READ_SECONDS: Final = 3600.0
"""Of the client between two bytes; every request has a deadline of ours, which is shorter."""
_AGAIN: Final = frozenset(
    {"SlowDown", "RequestTimeout", "RequestTimeTooSkewed", "Throttling", "ThrottlingException", "InternalError"}
    | {"ServiceUnavailable", "ConditionalRequestConflict", "OperationAborted", "TooManyRequests", "BadDigest"}
)
_REFUSED: Final = frozenset({401, 403})
_CREDENTIALS: Final = "look at AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or ~/.aws, and at the bucket's policy"


class NotHeldError(ObjectStoreError):
    """A condition of a write does not hold (412)."""


def connected(table: ObjectsTable) -> Any:
    """Return s3fs's file system for a table, which connects when it is first used.

    It neither retries nor caches by itself: there is one place for that. Raises UsageError where s3fs is not
    installed, ConfigError where the client cannot be made.
    """
    try:
        import s3fs
        from aiobotocore.awsrequest import AioAWSResponse
        from aiobotocore.httpsession import AIOHTTPSession
        from aiobotocore.session import AioSession
    except ModuleNotFoundError as error:
        raise UsageError(
            f"an s3:// place for objects needs {error.name}, which is not installed",
            remedy="pip install 'acceptd[fleet]', or in a checkout `make fleet`",
        ) from error

    class Bounded(AIOHTTPSession):  # type: ignore[misc]
        """Takes no more of an answer than :data:`MOST_TOLD`; an object's body is bounded by who reads it."""

        async def _get_session(self, proxy_url: Any) -> Any:
            """Follow no redirection: aiohttp would, and a store could send this host's requests where it likes."""
            session = await super()._get_session(proxy_url)
            return SimpleNamespace(request=functools.partial(session.request, allow_redirects=False))

        async def send(self, request: Any) -> Any:
            streams, request.stream_output = request.stream_output, True
            response: AioAWSResponse = await super().send(request)
            if not streams or response.status_code >= 300:
                response._content = await _bounded(response.raw)
            return response

    session = AioSession()
    session.register_component("data_loader", _loader())
    try:
        system = s3fs.S3FileSystem(
            session=session,
            loop=_loop(),
            anon=False,
            endpoint_url=table.endpoint or None,
            client_kwargs={"region_name": table.region or None} if table.region else {},
            config_kwargs={
                "connect_timeout": min(_CONNECT_SECONDS, table.seconds),
                "read_timeout": _READ_SECONDS,
                "retries": {"total_max_attempts": 1},
                "max_pool_connections": 64,
                "signature_version": "s3v4",
                "s3": {"addressing_style": "path" if table.endpoint else "auto"},
                # Not every S3-compatible server knows the newer checksums; ours is the digest that a key bears.
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
                "http_session_cls": Bounded,
            },
            skip_instance_cache=True,
            use_listings_cache=False,
        )
    except NoThreadError:
        raise
    except Exception as error:
        raise ConfigError(f"objects.url: {shown(str(error), 200)}") from error
    system.retries = 1
    return system


def _loop() -> Loop:
    """Return the loop of this process's clients, which runs in a thread of ours. Raises NoThreadError."""
    with _making:
        return _running(os.getpid())


@functools.lru_cache(maxsize=1)
def _running(_process: int) -> Loop:
    loop = Loop()
    try:
        Thread(loop.run_forever, name="objects-io").start()
    except NoThreadError:
        loop.close()
        raise
    return loop


@functools.cache
def _loader() -> Any:
    """Return what reads the client's description of S3: a third of a second, once for all stores of a process."""
    from botocore.loaders import create_loader

    return create_loader()


async def _bounded(raw: Any) -> bytes:
    data = bytearray()
    try:
        while part := await raw.content.read(1 << 16):
            data += part
            if len(data) > MOST_TOLD:
                raise ObjectStoreError(f"the server's answer has more than {MOST_TOLD} bytes")
    except BaseException:
        raw.close()
        raise
    raw.release()
    return bytes(data)


def translated(error: Exception, where: str, what: str, seconds: float) -> ObjectStoreError:
    """Return what an error of the client means, in one line; ObjectsUnreachableError for what may pass."""
    if isinstance(error, ObjectStoreError):
        return error
    place = f"{where}: {what}"
    if isinstance(error, asyncio.TimeoutError):
        return ObjectsUnreachableError(f"{place}: no whole answer within {seconds:g} s", remedy=_WAIT)
    status, code, words = _told(error)
    said = shown(" ".join(filter(None, (code, words))) or str(error) or type(error).__name__, 200)
    if status == 412:
        return NotHeldError(f"{place}: another one is there")
    if status == 404 and code == "NoSuchBucket":
        return ObjectStoreError(f"{where} does not exist", remedy="make the bucket, or mend objects.url")
    if status == 404:
        return ObjectMissingError(f"{place}: there is none")
    if 300 <= status < 400:
        problem = f"{place}: the server sends us elsewhere ({status} {said}), and none is followed"
        return ObjectStoreError(problem, remedy="set the region, or the endpoint, that the bucket has")
    if status in _REFUSED:
        return ObjectStoreError(f"{place}: refused: {said}", remedy=_CREDENTIALS)
    if (status >= 500 and status != 501) or status in {408, 409, 429} or code in _AGAIN:
        return ObjectsUnreachableError(f"{place}: the server failed ({status} {said})", remedy=_WAIT)
    if status == 501 and "write" in what:
        return ObjectStoreError(
            f"{place}: the server cannot do that ({said}), conditions perhaps",
            remedy="use a store that keeps conditions, or accept that by objects.unconditional = true",
        )
    if status:
        return ObjectStoreError(f"{place}: the server refused it ({status} {said})")
    name = type(error).__name__
    if "Credential" in name or "Token" in name or "Profile" in name:
        return ObjectStoreError(f"{place}: no credentials: {said}", remedy=_CREDENTIALS)
    if "SSL" in name or "Certificate" in name:
        return ObjectStoreError(f"{place}: {said}", remedy="trust its authority: AWS_CA_BUNDLE names its file")
    if "Validation" in name or "Parser" in name or isinstance(error, (ValueError, KeyError, TypeError)):
        return ObjectStoreError(f"{place}: it said what cannot be meant: {said}")
    return ObjectsUnreachableError(f"{place}: {said}", remedy=_WAIT)


_WAIT: Final = "it is tried again; look at the store and the way there"


def _told(error: Exception) -> tuple[int, str, str]:
    """Return HTTP status, code and message of an error, looking through s3fs's translation; 0 for none."""
    seen: BaseException | None = error
    for _ in range(8):
        if seen is None:
            break
        response = getattr(seen, "response", None)
        if isinstance(response, dict):
            inner, meta = response.get("Error"), response.get("ResponseMetadata")
            told = inner if isinstance(inner, dict) else {}
            status = meta.get("HTTPStatusCode", 0) if isinstance(meta, dict) else 0
            code = str(told.get("Code", ""))[:80]
            return int(status), "" if code == str(status) else code, str(told.get("Message", ""))[:200]
        seen = seen.__cause__ or seen.__context__
    return 0, "", ""


def told_size(value: Any) -> int:
    """Return a length that a server told; -1, which nothing has, for what is none."""
    return value if type(value) is int and value >= 0 else -1


def told_seconds(told: Any) -> float:
    """Return when an object was written, as a server told; 0 where it did not."""
    moment = told.get("LastModified")
    return float(moment.timestamp()) if hasattr(moment, "timestamp") else 0.0
