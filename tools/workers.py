"""Worker processes that may die: one task in, one answer out, a deadline; after a death, a new worker."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Final

Task = dict[str, Any]
Answer = dict[str, Any]
BODIES: Final = {"direct": "tools.direct_run", "golden": "tools.corpus_goldens"}
ROOT: Final = Path(__file__).resolve().parents[1]


class Worker:
    """One process of ``python -m tools.workers BODY``. Lines of JSON both ways, stderr discarded."""

    def __init__(self, body: str, memory_bytes: int = 0) -> None:
        self._body = body
        self._memory = memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""

    def ask(self, task: Task, seconds: float) -> Answer:
        """Return the answer; ``{"died": cause, "stage": …}`` when the worker crashed or was too slow."""
        if self._process is None:
            environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1", "OPENBLAS_NUM_THREADS": "1"}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tools.workers", self._body, str(self._memory)],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(task).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._bury("start")
        stage = "start"
        while True:
            line = self._line(process.stdout.fileno(), seconds)
            if line is None:
                self.close()
                return {"died": f"no answer within {seconds:g} s", "stage": stage}
            if not line:
                return self._bury(stage)
            answer: Answer = json.loads(line)
            if "stage" not in answer:
                return answer
            stage = answer["stage"]

    def _line(self, pipe: int, seconds: float) -> bytes | None:
        """Return one line; empty at the end of the pipe, None after ``seconds`` of silence."""
        while b"\n" not in self._pending:
            if not select.select([pipe], [], [], seconds)[0]:
                return None
            data = os.read(pipe, 1 << 16)
            if not data:
                return b""
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _bury(self, stage: str) -> Answer:
        assert self._process is not None
        code = self._process.wait()
        self.close()
        return {"died": signal.Signals(-code).name if code < 0 else f"exit {code}", "stage": stage}

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None
            self._pending = b""


def run_all(
    body: str, tasks: Iterable[Task], *, workers: int, seconds: float, memory_bytes: int = 0
) -> Iterator[tuple[Task, Answer]]:
    """Yield each task with its answer, in the order in which they are done."""
    waiting: Queue[Task] = Queue()
    done: Queue[tuple[Task, Answer]] = Queue()
    count = 0
    for task in tasks:
        waiting.put(task)
        count += 1

    def serve() -> None:
        worker = Worker(body, memory_bytes)
        try:
            while True:
                task = waiting.get_nowait()
                done.put((task, worker.ask(task, seconds)))
        except Empty:
            pass
        finally:
            worker.close()

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(max(1, workers))]
    for thread in threads:
        thread.start()
    for _ in range(count):
        yield done.get()
    for thread in threads:
        thread.join()


def serve_stdin(body: Callable[[Task, Callable[[str], None]], Answer], memory_bytes: int) -> None:
    """Answer tasks from standard input until it ends. ``body`` gets the task and a way to name its stage."""
    if memory_bytes:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what native code prints must not mix with the answers
    for line in sys.stdin:
        answer = body(json.loads(line), lambda name: (answers.write(_line({"stage": name})), None)[1])
        answers.write(_line(answer))


def _line(value: Answer) -> bytes:
    return json.dumps(value).encode() + b"\n"


if __name__ == "__main__":
    import importlib

    serve_stdin(importlib.import_module(BODIES[sys.argv[1]]).body, int(sys.argv[2]))
