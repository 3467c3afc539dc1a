"""Works the tasks of a node's queues: a thread with a loop of its own around Procrastinate's worker.

Tasks come **at least once**: a handler does nothing where the record says that it is done. What can come of one:

=================================== =====================================================================
the handler returns ``None``        done
it returns ``"inconclusive"``       tried again, :data:`~acceptd.fleet.task.MAX_TRIES` times in all, by another
                                    node if one is free; a handler whose ``task.last_try`` is true writes it down
it raises StateError, LedgerError,  something of ours is away (a database, a store, a disk): again, later and
OSError or their kin                later, until somebody's deadline ends it; nobody's death
it raises anything else             again, and counted as a death; with the second the promoter gets ``given-up``
the process dies                    the same, by the promoter's watch
it raises GivenUpError, with the    ``withdrawn``: out of the queue; ``stop``: back into it, nobody's death;
reason in ``cancel``                ``deadline``: the promoter gets ``given-up``
=================================== =====================================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import structlog

from acceptd.errors import FleetAwayError, GivenUpError, LedgerError, StateError
from acceptd.fleet import holding
from acceptd.fleet.connection import PAUSES, away, steady_connector
from acceptd.fleet.task import PREFIX, Cancel, FleetTask, Kind, read
from acceptd.fleet.tasks import quiet
from acceptd.loop import Loop
from acceptd.pool import Pool
from acceptd.threads import Thread
from acceptd.work.lease import Reason

log = structlog.get_logger("acceptd.fleet")

Handler = Callable[[FleetTask, Cancel], Literal["inconclusive"] | None]
BEAT_SECONDS: Final = 5.0
"""Between two heartbeats of a worker, and between two looks at what it holds."""
POLL_SECONDS: Final = 5.0
"""For what no notification tells of: a back-off that is over, a notification that was lost."""
BACK_OFF: Final = 5.0
"""Seconds before the second try; twice as long before each further one, up to :data:`LONGEST`."""
LONGEST: Final = 60.0
PASSES: Final = 3
"""How often the node that tried a task last leaves it to others."""
_END = Literal["done", "inconclusive", "away", "failed", "stop", "deadline", "withdrawn", "lost"]
_GIVEN_UP: Final[dict[Reason, _END]] = {
    "": "stop",
    "stop": "stop",
    "deadline": "deadline",
    "withdrawn": "withdrawn",
    "interrupted": "lost",
}
_PRUNED: Final = 10 * 365 * 86_400.0
"""Procrastinate's own pruning never comes: after an outage it would take everybody for dead (see ``holding``)."""


class Running(NamedTuple):
    """One task under way."""

    task: FleetTask
    cancel: Cancel
    since: float
    """Monotonic."""


class TaskWorker:
    """Works ``queues`` with ``slots`` tasks at once; ``handlers`` by kind are called in threads.

    ``node`` names this node, ``watch`` (the promoter's) finds dead workers, ``former`` is a file of this worker
    alone that survives its process: what a killed one held is taken back at the next start, and not only when the
    watch finds out. ``settled`` hears of each task how it ended. Nothing waits for the database: :meth:`start`
    returns at once, and an outage is waited out.
    """

    def __init__(
        self,
        url: str,
        queues: Sequence[str],
        slots: int,
        handlers: Mapping[Kind, Handler],
        *,
        node: str = "",
        watch: holding.Watch | None = None,
        former: Path | None = None,
        settled: Callable[[FleetTask, str], None] = lambda _task, _end: None,
        beat_seconds: float = BEAT_SECONDS,
        poll_seconds: float = POLL_SECONDS,
        back_off: float = BACK_OFF,
    ) -> None:
        quiet()
        self._url, self._queues, self._slots, self._handlers = url, list(queues), slots, dict(handlers)
        self._node, self._watch, self._settled = node, watch, settled
        self._former = holding.Former(former) if former is not None else None
        self._beat_seconds, self._poll_seconds, self._back_off = beat_seconds, poll_seconds, back_off
        self._threads = Pool(slots, "task")
        self._running: dict[int, Running] = {}
        self._ended: dict[int, float] = {}
        """Rows whose handler returned, and when: their end may still be on its way to the database."""
        self._lock = threading.Lock()
        self._draining = self._hurried = False
        self._idle = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: Any = None
        self._wake: asyncio.Event | None = None
        self.connected = threading.Event()
        """Set while the queue answers."""
        self.thread = Thread(self._main, name="tasks")

    def start(self) -> None:
        """Start the threads. Raises NoThreadError."""
        self._threads.fill()  # a task that was taken has its thread
        self.thread.start()

    @property
    def running(self) -> list[Running]:
        """What is being worked."""
        with self._lock:
            return list(self._running.values())

    def drain(self) -> None:
        """Take no more tasks; those under way go on."""
        self._draining = True
        self._tell()

    def cancel(self, reason: Reason = "stop") -> int:
        """Tell everything under way to end; return how many that were."""
        return sum(one.cancel.set(reason) for one in self.running)

    def stop(self, seconds: float | None = None) -> bool:
        """Take no more, let what runs end for ``seconds`` (None: however long), then cancel it, and wait for that.

        What is cancelled goes back into the queue. True where nothing had to be.
        """
        self.drain()
        if not self.thread.is_alive():
            return True
        orderly = self._idle.wait(seconds)
        if not orderly:
            self._hurried = True  # a database that is away is not waited for: the watch gives those tasks back
            self.cancel("stop")
            self._tell()
        self.thread.join()
        return orderly

    def _ending(self) -> bool:
        """Whether a database that is away is not waited for: nothing runs any more that it is to be told of."""
        return self._hurried or (self._draining and not self._running and not self._ended)

    def _tell(self) -> None:
        loop, worker, wake = self._loop, self._worker, self._wake
        if loop is not None and not loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it was closed meanwhile
                if wake is not None:
                    loop.call_soon_threadsafe(wake.set)
                if worker is not None:
                    loop.call_soon_threadsafe(worker.stop)

    def _main(self) -> None:
        try:
            with asyncio.Runner(loop_factory=Loop) as runner:
                self._loop = runner.get_loop()
                runner.run(self._work())
        except BaseException as error:
            log.exception("the task worker ended", error=f"{type(error).__name__}: {error}")
            raise
        finally:
            self.connected.clear()
            self._idle.set()
            self._threads.shutdown(wait=True)

    async def _work(self) -> None:
        """Run one worker of Procrastinate after another: each registers anew, when the one before was given up."""
        self._wake = asyncio.Event()
        attempt = 0
        while not self._draining:
            began = time.monotonic()
            try:
                await self._one_worker()
            except Exception as error:  # noqa: BLE001 - the node stays
                words = " ".join(str(error.__cause__ or error).split())[:200]
                log.warning("the task worker begins anew", error=f"{type(error).__name__}: {words}")
            self.connected.clear()
            attempt = 0 if time.monotonic() - began > self._beat_seconds else attempt + 1
            if not self._draining:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), PAUSES[min(attempt, len(PAUSES) - 1)])

    async def _one_worker(self) -> None:
        import procrastinate
        import procrastinate.worker

        registered: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        connector = steady_connector(self._url, self._ending, registered.set_result, most=self._slots + 3)
        app = procrastinate.App(connector=connector)
        perform = functools.partial(self._perform, connector)
        for kind in self._handlers:
            app.task(name=PREFIX + kind, pass_context=True)(_named(perform))
        await connector.open_now()
        beside: list[asyncio.Task[None]] = []
        try:
            worker = procrastinate.worker.Worker(
                app,
                queues=self._queues,
                name=self._node or None,
                concurrency=self._slots,
                fetch_job_polling_interval=self._poll_seconds,
                abort_job_polling_interval=self._beat_seconds,
                delete_jobs="successful",
                install_signal_handlers=False,
                update_heartbeat_interval=self._beat_seconds,
                stalled_worker_timeout=_PRUNED,
            )
            beside.append(asyncio.create_task(self._look_after(connector, worker, registered)))
            if self._watch is not None:
                beside.append(asyncio.create_task(self._watch_others(connector, self._watch)))
            running = asyncio.create_task(worker.run())
            await asyncio.sleep(0)  # it forgets a stop that came before it began
            self._worker = worker
            if self._draining:
                worker.stop()
            await running
        finally:
            self._worker = None
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await connector.close_now()

    async def _perform(self, connector: Any, context: Any) -> None:
        import procrastinate.exceptions

        job = context.job
        task = read(job.task_name, job.queue, job.task_kwargs, job.id)
        if task is None:
            log.error("a row of the queue is none of ours", queue=job.queue, row=job.id)
            return
        if task.avoid and task.avoid == self._node and task.passes < PASSES:
            await self._next(connector, job, task.again(passes=task.passes + 1), self._poll_seconds / 2)
            return
        cancel = Cancel()
        with self._lock:
            self._running[job.id] = Running(task, cancel, time.monotonic())
        try:
            end = await self._outcome(task, cancel)
            await self._settle(connector, job, task, end, here=cancel.here)
        finally:
            with self._lock:
                del self._running[job.id]
                self._ended[job.id] = time.monotonic()
        if end in {"withdrawn", "lost"}:
            raise procrastinate.exceptions.JobAborted

    async def _outcome(self, task: FleetTask, cancel: Cancel) -> _END:
        assert self._loop is not None
        done = self._loop.run_in_executor(self._threads, self._call, task, cancel)
        while True:
            try:
                end: _END = await asyncio.shield(done)
                # Another one has it: whatever came of it here, nothing follows.
                return "lost" if cancel.reason == "interrupted" else end
            except asyncio.CancelledError:  # Procrastinate was told to abort it; its processes end first
                cancel.set("withdrawn")

    def _call(self, task: FleetTask, cancel: Cancel) -> _END:
        """Call the handler, in a thread; return what is to become of the task."""
        try:
            cancel.check()
            result = self._handlers[task.kind](task, cancel)
        except GivenUpError:
            return _GIVEN_UP[cancel.reason]
        except Exception as error:
            ours = _ours(error)
            log.error(  # noqa: TRY400 - a traceback only where it is a surprise
                "task not done",
                submission=task.submission,
                task=task.kind,
                error=" ".join(f"{type(error).__name__}: {error}".split())[:400],
                exc_info=None if ours else error,
            )
            if ours and not isinstance(error, FleetAwayError) and not away(error):
                cancel.here = True
            return "away" if ours else "failed"
        return "inconclusive" if result == "inconclusive" and not task.last_try else "done"

    async def _settle(self, connector: Any, job: Any, task: FleetTask, end: _END, *, here: bool) -> None:
        """Defer what follows, before Procrastinate ends the row: a kill in between leaves one of both.

        ``here``: what hindered it may be this node's alone, and another one is preferred.
        """
        self._settled(task, end)
        if end == "inconclusive":
            tried = task.again(tries=task.tries + 1, waits=0, avoid=self._node, passes=0)
            await self._next(connector, job, tried, _pause(self._back_off, task.tries))
        elif end == "away":
            again = task.again(waits=task.waits + 1, avoid=self._node if here else "", passes=0)
            await self._next(connector, job, again, _pause(self._back_off, task.waits))
        elif end == "failed":
            follows = holding.after_death(task)
            pause = 0.0 if follows.kind != task.kind else _pause(self._back_off, task.deaths)
            await self._next(connector, job, follows, pause)
        elif end == "deadline":
            await self._next(connector, job, task.given_up("deadline"), 0.0)
        elif end == "stop":
            await self._next(connector, job, task.again(), 0.0)

    async def _next(self, connector: Any, job: Any, task: FleetTask, seconds: float) -> None:
        attempt = 0
        while True:
            try:
                async with connector.together() as connection:
                    await holding.defer(connection, task, job.priority, seconds)
                return
            except Exception as error:
                if self._hurried or not away(error):
                    raise
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
                attempt += 1

    # -- beside ------------------------------------------------------------------------------------------

    async def _look_after(self, connector: Any, worker: Any, registered: asyncio.Future[int]) -> None:
        """Compare what this worker holds in the database with what it works; first what its former self held."""
        me = await registered
        self.connected.set()
        strange: set[int] = set()
        former, self._former = self._former, None
        while True:
            try:
                if former is not None:
                    async with connector.together() as connection:
                        await former.bury(connection, me)
                    former.remember(me)
                    former = None
                async with connector.together() as connection:
                    held = await holding.held(connection, me)
                    strange = await self._compare(connection, me, held or set(), strange)
                self.connected.set()
                if held is None:  # somebody took it for dead: it registers anew once what runs has ended
                    worker.stop()
            except Exception as error:  # noqa: BLE001 - it looks again
                self.connected.clear()
                if not away(error):
                    log.warning("what this node holds is not known", error=" ".join(str(error).split())[:200])
            await asyncio.sleep(self._beat_seconds)

    async def _compare(self, connection: Any, worker: int, held: set[int], strange: set[int]) -> set[int]:
        """Cancel what was given to others; give back what is held and not worked, at the second look."""
        now = time.monotonic()
        with self._lock:
            running = dict(self._running)
            self._ended = {row: at for row, at in self._ended.items() if now - at < 2 * self._beat_seconds}
            ending = set(self._ended)
        for number in running.keys() - held:
            if running[number].cancel.set("interrupted"):
                log.warning("the task was given to another worker", submission=running[number].task.submission)
        found = held - running.keys() - ending
        for number in found & strange:
            log.warning("a task that was fetched and never told of goes back", row=number)
            await holding.take_back(connection, number, worker, death=False)
        return found

    async def _watch_others(self, connector: Any, watch: holding.Watch) -> None:
        while True:
            await asyncio.sleep(watch.interval)
            try:
                async with connector.pool.connection() as connection:
                    await connection.set_autocommit(True)
                    try:
                        await watch.look(connection)
                    finally:
                        if not connection.closed:
                            await connection.set_autocommit(False)
            except Exception as error:  # noqa: BLE001 - it looks again
                if not away(error):
                    log.warning("the watch could not look", error=" ".join(str(error).split())[:200])


def _named(perform: Callable[..., Any]) -> Callable[..., Any]:
    async def run(context: Any, **_: Any) -> None:  # the arguments are read from the row, by a closed model
        await perform(context)

    return run


def _pause(first: float, times: int) -> float:
    return min(LONGEST, first * 2.0 ** min(times, 16))


def _ours(error: Exception) -> bool:
    """Whether it is our own storage's refusal, which says nothing about the submission."""
    return isinstance(error, StateError | LedgerError | OSError) or away(error)
