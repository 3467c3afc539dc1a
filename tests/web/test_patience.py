"""A connection that brings nothing, or takes nothing, gives its place to others; one that is at work keeps it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from acceptd.web import patience, serve

pytestmark = pytest.mark.unit

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "SECONDS", 0.01)


class Watched(patience.Patience):
    """Tells when it was looked at, and when it ended."""

    looks: asyncio.Queue[None]
    ended: asyncio.Event

    def _looked(self) -> None:
        super()._looked()
        self.looks.put_nowait(None)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.ended.set()


async def answer(send: Any, size: int = 1) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
    await send({"type": "http.response.body", "body": b"a" * size})


@asynccontextmanager
async def connected(app: Any) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    Watched.looks, Watched.ended = asyncio.Queue(), asyncio.Event()
    config = uvicorn.Config(app, lifespan="off", ws="none", log_config=None, timeout_keep_alive=60)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Watched(config=config, server_state=ServerState(), app_state={}), "127.0.0.1", 0
    )
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=1024)
        try:
            yield reader, writer
        finally:
            writer.close()


def run(app: Any, work: Callable[[Any, Any], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with connected(app) as (reader, writer):
            await work(reader, writer)

    asyncio.run(asyncio.wait_for(inside(), 60))


@pytest.mark.parametrize("sent", [b"", HEAD], ids=["nothing", "half a head"])
def test_who_asks_nothing_is_sent_away(sent: bytes) -> None:
    async def work(_reader: Any, writer: Any) -> None:
        writer.write(sent)
        await Watched.ended.wait()

    run(None, work)


def test_who_stops_in_the_second_request_is_sent_away() -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await answer(send)

    async def work(reader: Any, writer: Any) -> None:
        writer.write(HEAD + b"\r\n" + HEAD)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await Watched.ended.wait()

    run(app, work)


def test_who_does_not_take_the_answer_is_sent_away() -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await answer(send, 32 << 20)

    async def work(_reader: Any, writer: Any) -> None:
        writer.write(HEAD + b"\r\n")
        await Watched.ended.wait()

    run(app, work)


def test_an_answer_that_takes_its_time_is_waited_for() -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        for _ in range(5):
            await Watched.looks.get()
        await answer(send)

    async def work(reader: Any, writer: Any) -> None:
        writer.write(HEAD + b"\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")

    run(app, work)


def test_a_web_socket_that_a_page_asks_for_is_an_ordinary_request_and_no_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(scope: Any, _receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await answer(send)

    async def work(reader: Any, writer: Any) -> None:
        writer.write(HEAD + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")

    with caplog.at_level(logging.INFO, "uvicorn.error"):
        run(app, work)
    assert caplog.records == []


def test_the_console_is_served_with_patience() -> None:
    assert serve._config(None).http is patience.Patience
