"""Connections of the task queue to PostgreSQL: a cut of any length is waited out."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

import structlog

from acceptd.errors import FleetAwayError, StateError

log = structlog.get_logger("acceptd.fleet")

# A cable that is pulled says nothing: both kernels ask, and give a connection up after ten seconds or so. Else
# the server would keep the locks of a node that is gone for hours.
_SERVER: Final = (
    "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3 -c tcp_user_timeout=10000 "
    "-c idle_in_transaction_session_timeout=30000"
)
STEADY: Final[dict[str, Any]] = {
    "application_name": "acceptd",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "options": _SERVER,
}
RECONNECT_SECONDS: Final = 10.0
"""After which a pool begins its attempts anew, so that their pauses stay short."""
PAUSES: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds between two attempts to reach the database; the last one for ever."""


def plain_url(url: str) -> str:
    """Return the URL without SQLAlchemy's word for the driver."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme.partition('+')[0]}{mark}{rest}"


def steady(url: str) -> dict[str, Any]:
    """Return what a connection is made with besides its URL. StateError where that is none of PostgreSQL's."""
    import psycopg.conninfo

    with translated():
        known = psycopg.conninfo.conninfo_to_dict(plain_url(url))
    return {**STEADY, "options": f"{_SERVER} {known.get('options') or ''}".strip()}


def away(error: BaseException | None) -> bool:
    """Whether the database cannot be used now, which says nothing about what was asked of it."""
    import psycopg
    import psycopg_pool

    if isinstance(error, psycopg_pool.PoolClosed):
        return False
    read_only = psycopg.errors.ReadOnlySqlTransaction  # a standby that is not yet promoted
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | read_only)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise the driver's and Procrastinate's errors as ours: FleetAwayError where it may pass, else StateError."""
    import procrastinate.exceptions
    import psycopg

    try:
        yield
    except (psycopg.Error, procrastinate.exceptions.ConnectorException) as error:
        cause = error if isinstance(error, psycopg.Error) else error.__cause__
        words = " ".join(str(cause or error).split())[:300]
        if away(cause):
            raise FleetAwayError(f"the database of the fleet cannot be used now: {words}") from error
        raise StateError(f"the database of the fleet refused: {words}") from error


def steady_connector(
    url: str, ending: Callable[[], bool], registered: Callable[[int], object], *, most: int
) -> Any:
    """Return a connector for one worker, whose calls wait until the database is back, or until ``ending``.

    A call that is made again may have been done before: a job fetched and not told of is found by the worker's own
    look at what it holds, and a job finished twice is finished. ``registered`` is told the worker's number.
    """
    import procrastinate
    import procrastinate.exceptions
    import procrastinate.sql
    import psycopg
    import psycopg_pool

    queries = procrastinate.sql.queries

    class Steady(procrastinate.PsycopgConnector):  # type: ignore[misc]
        _told = False

        async def _until_done(self, call: Callable[[], Awaitable[Any]]) -> Any:
            attempt = 0
            while True:
                try:
                    done = await call()
                except procrastinate.exceptions.ConnectorException as error:
                    if ending() or not away(error.__cause__):
                        raise
                    if not attempt:
                        log.warning("the task queue is away", reason=" ".join(str(error.__cause__).split())[:200])
                    await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
                    attempt += 1
                else:
                    if attempt:
                        log.info("the task queue is back", attempts=attempt)
                    return done

        async def execute_query_async(self, query: Any, **arguments: Any) -> None:
            try:
                await self._until_done(lambda: super(Steady, self).execute_query_async(query, **arguments))
            except procrastinate.exceptions.ConnectorException as error:
                # Ended before: by the call whose answer was lost, or by whoever took this worker for dead.
                finished = isinstance(error.__cause__, psycopg.errors.RaiseException)
                if not finished or "was not found" not in str(error.__cause__):
                    raise

        async def execute_query_one_async(self, query: Any, **arguments: Any) -> Any:
            fetching = query == queries["fetch_job"]
            while True:
                self._told = self._told and not fetching
                done = await self._until_done(
                    lambda: super(Steady, self).execute_query_one_async(query, **arguments)
                )
                if fetching and done["id"] is None and self._told:
                    continue  # told of after it had looked: Procrastinate would forget it until its next poll
                if query == queries["register_worker"]:
                    registered(done["worker_id"])
                return done

        async def execute_query_all_async(self, query: Any, **arguments: Any) -> Any:
            return await self._until_done(lambda: super(Steady, self).execute_query_all_async(query, **arguments))

        async def listen_notify(self, on_notification: Any, channels: Any) -> None:
            channels = list(channels)
            attempt = 0

            async def tell(*, channel: str, payload: str) -> None:
                # Whoever may connect may notify: a payload that is none wakes nobody, and only a row ends work.
                with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                    told = json.loads(payload)
                    if told["type"] == "abort_job_requested" and not await self._aborted(told["job_id"]):
                        return
                    self._told = True
                    await on_notification(channel=channel, payload=payload)

            while True:
                try:
                    async with self._get_standalone_connection() as connection:
                        for name in channels:
                            listen = psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(name))
                            await connection.execute(listen)
                        attempt = 0
                        # Whatever was told while nobody listened.
                        await tell(channel=channels[0], payload='{"type": "job_inserted", "job_id": 0}')
                        await self._loop_notify(on_notification=tell, connection=connection)
                except (psycopg.OperationalError, psycopg.InterfaceError, OSError):
                    pass
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
                attempt += 1

        async def _aborted(self, number: Any) -> bool:
            asked = "SELECT 1 FROM procrastinate_jobs WHERE id = %(id)s AND abort_requested"
            return type(number) is int and bool(await self.execute_query_all_async(asked, id=number))

        @contextlib.asynccontextmanager
        async def together(self) -> AsyncIterator[Any]:
            """Give a connection in one transaction."""
            async with self.pool.connection() as connection, connection.transaction():
                yield connection

        async def open_now(self) -> None:
            """Open the pool without waiting for the database."""
            pool = psycopg_pool.AsyncConnectionPool(
                plain_url(url),
                min_size=1,
                max_size=most,
                open=False,
                kwargs=steady(url),
                check=psycopg_pool.AsyncConnectionPool.check_connection,
                timeout=2.0,
                reconnect_timeout=RECONNECT_SECONDS,
            )
            await pool.open(wait=False)
            await self.open_async(pool)

        async def close_now(self) -> None:
            """Close the pool."""
            await self.pool.close(timeout=1.0)

    return Steady()
