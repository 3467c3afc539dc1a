"""A thread with no memory for its first instruction holds nobody up: Python's own start would wait for ever."""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import acceptd
from acceptd import threads
from acceptd.aside import aside
from acceptd.errors import NoThreadError
from acceptd.intake.durable import synchronise
from acceptd.pool import Pool
from acceptd.threads import Thread, started
from tests.threads import die_at_once, only

PATIENCE = 60.0

REAL = """
import os, resource, tempfile
from acceptd import aside, errors, pool, threads
from acceptd.intake import durable

def one_thread_left():
    while len(os.listdir("/proc/self/task")) > 1:
        os.sched_yield()

files = [tempfile.TemporaryFile() for _ in range(3)]
wanted = errors.NoThreadError("")
for _ in range(3):  # the C library keeps the stack of a thread that ended: the next one has one, and no memory
    first = threads.Thread(int, name="first")
    first.start()
    first.join()
    one_thread_left()
size = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
was = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (size, was[1]))
with aside.aside(lambda: 7) as answer:
    print(answer())
durable.synchronise([one.fileno() for one in files])
try:
    pool.Pool(1, "one").submit(int)
except errors.NoThreadError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, was)  # whoever measures it writes at its end
"""


def run() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", REAL],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(acceptd.__file__).parents[1])},
    )


def test_with_no_memory_left_what_would_have_had_a_thread_is_done_in_place_or_refused_in_words() -> None:
    """By RLIMIT_AS: a stack that is kept, and no page more; as a submission met it that then stood still."""
    with run() as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert out.startswith("7\nthe thread one-0 ")
    assert "TasksMax" in out
    assert "in thread started by" in err, "the fault itself was there"
    assert "MemoryError" in err


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> None:
    die_at_once(monkeypatch)


@pytest.mark.usefixtures("dying")
def test_a_thread_that_dies_before_its_first_word_is_told_by_its_start() -> None:
    called: list[int] = []
    thread = Thread(called.append, args=(1,), name="one")
    with pytest.raises(NoThreadError, match="one ended before it began"):
        thread.start()
    assert not called
    assert thread.ident is None
    assert not thread.is_alive()
    with pytest.raises(ValueError, match="was not started"):
        thread.join()
    with pytest.raises(ValueError, match="was started before"):
        thread.start()


@pytest.mark.usefixtures("dying")
def test_it_is_told_also_where_the_call_back_finds_no_memory_either(monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf:
        def put(self, _word: object) -> None:
            raise MemoryError

        def get(self, timeout: float) -> object:
            while True:
                try:
                    return self._empty.get(timeout=timeout)
                finally:
                    gc.collect()

        _empty: Any = threads.SimpleQueue()

    monkeypatch.setattr(threads, "SimpleQueue", Deaf)
    monkeypatch.setattr(threads, "LOOK_SECONDS", 0.01)
    with pytest.raises(NoThreadError, match="ended before it began"):
        Thread(int, name="one").start()


@pytest.mark.usefixtures("dying")
def test_a_submission_looks_up_in_place_what_no_thread_lives_for() -> None:
    with aside(threading.get_ident) as answer:
        assert answer() == threading.get_ident()


@pytest.mark.usefixtures("dying")
def test_a_seal_is_made_durable_where_every_thread_dies_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "fsync", asked.append)
    synchronise(range(20))
    assert asked == list(range(20))


@pytest.mark.parametrize("fault", [die_at_once, lambda patch: only(0, patch)], ids=["dies", "refused"])
def test_a_pool_takes_no_call_that_nobody_would_make(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[int] = []
    with Pool(2, "two") as pool:
        with monkeypatch.context() as patch:
            fault(patch)
            with pytest.raises(NoThreadError):
                pool.submit(called.append, 1)
            with pytest.raises(NoThreadError):
                pool.fill()
        assert pool.submit(lambda: 5).result(PATIENCE) == 5, "it takes them again once there is memory"
        with monkeypatch.context() as patch:
            fault(patch)
            assert [pool.submit(lambda: 6).result(PATIENCE) for _ in range(9)] == [6] * 9, "one thread does it all"
    assert not called


def test_a_call_that_came_to_no_end_is_told_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that begins and finds no memory for the call itself."""
    monkeypatch.setattr(threading, "excepthook", lambda _told: None)

    class Context:
        def run(self, _call: Callable[[], None]) -> None:
            raise MemoryError

    monkeypatch.setattr("contextvars.copy_context", Context)
    with aside(lambda: 7) as answer, pytest.raises(NoThreadError, match="came to no end"):
        answer()


def test_a_pool_outlives_a_lack_of_memory_between_two_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    with Pool(1, "one") as pool:
        pool.fill()
        one, lacks = pool._one, [MemoryError(), MemoryError()]

        def lacking() -> bool:
            if lacks:
                raise lacks.pop()
            return one()

        monkeypatch.setattr(pool, "_one", lacking)
        assert pool.submit(lambda: 1).result(PATIENCE) == 1  # the thread waits in the method as it was
        assert pool.submit(lambda: 2).result(PATIENCE) == 2
        assert not lacks


def test_a_pool_does_what_it_took_in_order_and_ends_with_its_threads() -> None:
    done: list[int] = []
    entered, go = threading.Event(), threading.Event()

    def first() -> None:
        entered.set()
        assert go.wait(PATIENCE)

    pool = Pool(1, "one")
    futures = [pool.submit(first), *(pool.submit(done.append, number) for number in range(5))]
    assert entered.wait(PATIENCE)
    late = pool.submit(done.append, 99)
    assert late.cancel()
    go.set()
    pool.shutdown()
    assert all(future.done() for future in futures)
    assert done == list(range(5))
    assert not any(thread.is_alive() for thread in pool._threads)
    with pytest.raises(RuntimeError, match="was shut down"):
        pool.submit(int)
    pool.shutdown()


def test_a_pool_that_is_shut_down_forgets_what_has_not_begun_where_it_is_told_to() -> None:
    entered, go = threading.Event(), threading.Event()

    def first() -> int:
        entered.set()
        assert go.wait(PATIENCE)
        return 1

    pool = Pool(1, "one")
    begun, waits = pool.submit(first), pool.submit(int)
    assert entered.wait(PATIENCE)
    pool.shutdown(wait=False, cancel_futures=True)
    assert waits.cancelled()
    go.set()
    assert begun.result(PATIENCE) == 1
    pool.shutdown()
    assert not any(thread.is_alive() for thread in pool._threads)


def test_an_error_of_a_call_is_its_own_and_the_next_one_is_made() -> None:
    with Pool(1, "one") as pool:
        with pytest.raises(ZeroDivisionError):
            pool.submit(lambda: 1 / 0).result(PATIENCE)
        with pytest.raises(SystemExit):
            pool.submit(sys.exit).result(PATIENCE)
        assert list(pool.map(abs, [-1, -2])) == [1, 2]


def test_all_threads_of_a_pool_work_at_once() -> None:
    both = threading.Barrier(3)
    with Pool(3, "three") as pool:
        for future in [pool.submit(both.wait, PATIENCE) for _ in range(3)]:
            future.result(PATIENCE)


def test_a_library_whose_thread_never_begins_is_waited_for_no_longer_than_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = threading.Thread(target=int, daemon=True)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda _told: None)

        def dies(thread: threading.Thread, begin: Any = threading.Thread._bootstrap) -> None:  # type: ignore[attr-defined]
            if thread is other:
                raise MemoryError
            begin(thread)

        patch.setattr(threading.Thread, "_bootstrap", dies)
        with pytest.raises(NoThreadError, match="the watch cannot be started"):
            started(other.start, "the watch", seconds=0.05)


@pytest.mark.parametrize("error", [OSError("no watches"), RuntimeError("of another kind"), ValueError("x")])
def test_what_a_library_raises_is_what_comes_out(error: Exception) -> None:
    def start() -> None:
        raise error

    with pytest.raises(type(error), match=str(error)):
        started(start, "the watch")


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
def test_a_library_that_finds_no_memory_for_a_thread_is_told_as_our_own_would_be(error: Exception) -> None:
    def start() -> None:
        raise error

    with pytest.raises(NoThreadError, match="the watch cannot be started"):
        started(start, "the watch")


def test_a_thread_is_waited_for_and_its_error_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    go = threading.Event()

    def fails() -> None:
        assert go.wait(PATIENCE)
        raise LookupError("here")

    thread = Thread(fails, name="one")
    thread.start()
    assert thread.is_alive()
    thread.join(0)
    assert thread.is_alive()
    go.set()
    thread.join()
    assert not thread.is_alive()
    assert [(one.exc_type, one.thread and one.thread.name) for one in told] == [(LookupError, "one")]


def test_a_thread_does_not_wait_for_itself() -> None:
    said: list[str] = []

    def waits() -> None:
        try:
            thread.join()
        except ValueError as error:
            said.append(str(error))

    thread = Thread(waits, name="one")
    thread.start()
    thread.join()
    assert said == ["the thread one cannot wait for its own end"]


ALLOWED = {"acceptd/threads.py"}
FORBIDDEN = {
    "Thread": "threading", "Timer": "threading", "ThreadPoolExecutor": "", "to_thread": "", "new_event_loop": "",
    "run_in_threadpool": "", "start_new_thread": "", "ThreadingTCPServer": "", "ThreadingHTTPServer": "",
}  # fmt: skip


def test_nothing_of_acceptd_starts_a_thread_by_other_means() -> None:
    root = Path(acceptd.__file__).parents[1]
    found = []
    for path in sorted((root / "acceptd").rglob("*.py")):
        name = str(path.relative_to(root))
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = FORBIDDEN.get(node.func.attr)
                if owner is not None and owner in ast.unparse(node.func.value):
                    found.append(f"{name}:{node.lineno}: {ast.unparse(node.func)}")
                loops = ast.unparse(node.func) in {"asyncio.run", "asyncio.Runner"}
                if loops and all(one.arg != "loop_factory" for one in node.keywords):
                    found.append(f"{name}:{node.lineno}: {ast.unparse(node.func)}")
            elif isinstance(node, ast.ImportFrom) and node.module != "acceptd.threads":
                found += [
                    f"{name}:{node.lineno}: {one.name} of {node.module}"
                    for one in node.names
                    if one.name in FORBIDDEN
                ]
    assert [one for one in found if one.split(":")[0] not in ALLOWED] == []
    assert any(one.split(":")[0] in ALLOWED for one in found), "what it looks for is found where it is"
