"""Each limit has an ending of its own, and the next job is clean."""

from __future__ import annotations

import select
import socket
import time
from typing import Any

import pytest

from acceptd.cell import client
from tests.cell.conftest import Attack

pytestmark = pytest.mark.cell


@pytest.mark.parametrize(
    ("source", "ending", "cause"),
    [
        ("while True: pass", "limit", "cpu"),
        ("ctypes.string_at(0)", "crash", "SIGSEGV"),
        ("os.abort()", "crash", "SIGABRT"),
        ("time.sleep(3600)", "limit", "wall"),
        ("while True: os.write(2, b'x' * 65536)", "limit", "stderr"),
        ("os._exit(0)", "violation", "ended without a last word (exit code 0)"),
        ("os._exit(7)", "violation", "ended without a last word (exit code 7)"),
        ("os.close(3); time.sleep(3600)", "limit", "wall"),
    ],
)
def test_the_ending_is_named(source: str, ending: str, cause: str, attack: Attack) -> None:
    # Where computing is what ends it, a busy host is no matter.
    record = attack(source, cpu=1, wall=20 if cause == "cpu" else 2)
    assert (record.ending, record.cause) == (ending, cause)
    assert attack("note(ok=True)").ending == "done"


@pytest.mark.parametrize("mask", [False, True])
def test_a_job_that_ignores_the_cpu_signal_gains_nothing(mask: bool, attack: Attack) -> None:
    refuse = (
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGXCPU])"
        if mask
        else "signal.signal(signal.SIGXCPU, signal.SIG_IGN)"
    )
    record = attack(f"{refuse}\nwhile True: pass", cpu=1, wall=20)  # a busy host is no matter here
    assert (record.ending, record.cause) == ("limit", "cpu")
    assert 1.0 <= record.cpu_s < 1.5


def test_a_memory_bomb_ends_at_its_limit(attack: Attack) -> None:
    record = attack("keep = []\nwhile True: keep.append(bytearray(16 << 20))")
    # The kernel refuses the memory and the job says so, or the watcher sees the last step first.
    refused = record.refused is not None and record.refused.code == "resources/memory-limit"
    assert refused or (record.ending, record.cause) == ("limit", "memory")
    assert record.peak_rss_bytes < (256 + 64 + 128) << 20


def test_memory_within_the_budget_is_given(attack: Attack) -> None:
    assert attack("x = bytearray(128 << 20); note(n=len(x))").ending == "done"


def test_the_record_shows_memory_over_time_faults_and_threads(attack: Attack) -> None:
    source = """
keep = bytearray(96 << 20)
gate = threading.Event()
for _ in range(3): threading.Thread(target=gate.wait, daemon=True).start()
time.sleep(0.4)
del keep
time.sleep(0.3)
os._exit(1)
"""
    profile = attack(source).resource_profile
    assert profile is not None
    assert len(profile.seconds) == len(profile.bytes_used) >= 4
    assert 90 << 20 < max(profile.bytes_used) < 128 << 20
    assert profile.bytes_used[-1] < 32 << 20
    assert profile.threads == 4
    assert profile.minor_faults is not None
    assert profile.minor_faults > 100  # of 24,576 pages; fewer where the kernel gives huge ones
    asleep = attack("time.sleep(3600)", cpu=1).resource_profile
    assert asleep is not None
    assert asleep.minor_faults is None  # killed from outside


def test_an_output_past_its_cap_is_a_limit(attack: Attack, tmp_path: object) -> None:
    from acceptd.cell.blobs import Blob

    blob = Blob(tmp_path)  # type: ignore[arg-type]
    writer = blob.writer()
    try:
        record = attack("while True: os.write(blobs['out'], b'x' * 65536)", blobs={"out": writer})
        assert (record.ending, record.cause) == ("limit", "output")
        assert blob.size <= 1 << 20
    finally:
        import os

        os.close(writer)
        blob.close()


def test_a_thread_bomb_stops_at_its_bound_and_harms_nobody(attack: Attack) -> None:
    source = """
n = 0
gate = threading.Event()
try:
    while n < 100000:
        threading.Thread(target=gate.wait, daemon=True).start(); n += 1
except BaseException as e:
    pass
note(started=n)
os._exit(1)
"""
    record = attack(source)
    assert record.notes[0].facts["started"] < 64, record
    assert attack("note(ok=True)").ending == "done"


def test_a_stack_that_grows_down_is_no_way_round_the_memory_limit(attack: Attack) -> None:
    source = """
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100
note(refused=libc.mmap(None, ctypes.c_size_t(1 << 20), 3, flags, -1, ctypes.c_long(0)) in (None, 2**64 - 1))
"""
    assert attack(source).notes[0].facts == {"refused": True}


def test_a_job_that_kills_itself_cannot_pass_for_a_strangers_victim(attack: Attack) -> None:
    source = "ctypes.CDLL(None).syscall(234, os.getpid(), os.getpid(), 9); note(survived=True)"
    record = attack(source)
    assert record.ending == "done"
    assert record.notes[0].facts == {"survived": True}


def test_forty_jobs_in_a_row_leave_nothing(attack: Attack) -> None:
    import os

    before = len(os.listdir("/proc/self/fd"))
    for number in range(40):
        source = {0: "ctypes.string_at(0)", 1: "os.write(3, b'zzzzzzz')"}.get(number % 20, "note(ok=True)")
        record = attack(source)
        assert record.ending in {"done", "crash", "violation"}
    assert len(os.listdir("/proc/self/fd")) <= before + 2  # the spare parent's socket and pipe may come and go


def test_no_user_namespace_can_be_made_even_without_seccomp(attack: Attack) -> None:
    source = (
        "libc = ctypes.CDLL(None, use_errno=True)\nnote(made=libc.unshare(0x10000000), why=ctypes.get_errno())"
    )
    record = attack(source, walls_off=["seccomp"])
    assert record.notes[0].facts == {"made": -1, "why": 28}  # ENOSPC: the limit of the job's own namespace
    assert record.walls is not None
    assert "namespaces" not in record.walls.notes


def held_up(monkeypatch: pytest.MonkeyPatch, seconds: float) -> list[float]:
    """Let whoever gives an order lose the processor until the job is over, or for so long; return for how long."""
    send, held = client._send_order, list[float]()

    def late(sock: socket.socket, order: dict[str, Any]) -> None:
        began = time.monotonic()
        send(sock, order)
        over = select.poll()
        over.register(sock, select.POLLHUP)
        over.poll(seconds * 1000)
        held.append(time.monotonic() - began)

    monkeypatch.setattr(client, "_send_order", late)
    return held


def test_a_job_that_was_done_before_its_watcher_got_the_processor_again_took_its_time(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted from the watcher's beginning it took none, and what it says of its time would be a lie."""
    held = held_up(monkeypatch, 60)
    record = attack("note(ok=True)")
    assert record.ending == "done"
    assert record.wall_s >= held[0]


def test_a_job_gets_no_second_time_where_its_watcher_got_the_processor_late(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = held_up(monkeypatch, 1.2)
    record = attack("time.sleep(3600)", cpu=1, wall=1)
    assert (record.ending, record.cause) == ("limit", "wall")
    assert record.wall_s >= held[0]
