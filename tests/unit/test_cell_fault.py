"""How a job's ending is judged from outside: what is the model's fault, and what is the host's or a stranger's."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from acceptd.cell.limits import Observed, classify, job_limits
from acceptd.cell.protocol import ProtocolViolationError, Reader
from acceptd.policy.limits import LimitsTable
from sandbox import messages

pytestmark = pytest.mark.unit

LIMITS = job_limits("run", LimitsTable(run_cpu_seconds=10, wall_factor=2))
SEEN = Observed(status=0, killed_for="", finished=True, refused=False, cpu_s=0.1, wall_s=0.2)


@pytest.mark.parametrize(
    ("seen", "ending", "cause"),
    [
        (SEEN, "done", ""),
        (replace(SEEN, finished=False, refused=True), "refused", ""),
        (replace(SEEN, killed_for="wall", cpu_s=10.0), "limit", "wall"),
        (replace(SEEN, killed_for="wall", cpu_s=9.9), "lost", "wall"),
        (replace(SEEN, killed_for="violation"), "violation", "protocol"),
        (replace(SEEN, killed_for="memory"), "limit", "memory"),
        (replace(SEEN, killed_for="output"), "limit", "output"),
        (replace(SEEN, killed_for="stderr"), "limit", "stderr"),
        (replace(SEEN, killed_for="cpu"), "limit", "cpu"),
        (replace(SEEN, killed_for="cancelled"), "lost", "cancelled"),
        (replace(SEEN, killed_for="caller"), "lost", "caller"),
        (replace(SEEN, status=None), "lost", "no wait status"),
        (replace(SEEN, status=97 << 8), "unavailable", "a mandatory wall is missing"),
        (replace(SEEN, status=1 << 8), "violation", "ended without a last word (exit code 1)"),
        (replace(SEEN, finished=False), "violation", "ended without a last word (exit code 0)"),
        (replace(SEEN, status=signal.SIGXCPU), "limit", "cpu"),
        (replace(SEEN, status=signal.SIGXFSZ), "limit", "output"),
        (replace(SEEN, status=signal.SIGKILL, cpu_s=10.0), "limit", "cpu"),
        (replace(SEEN, status=signal.SIGKILL), "lost", "SIGKILL that acceptd did not send"),
        (replace(SEEN, status=signal.SIGTERM), "lost", "SIGTERM that acceptd did not send"),
        (replace(SEEN, status=signal.SIGSEGV), "crash", "SIGSEGV"),
        (replace(SEEN, status=signal.SIGSYS | 0x80), "crash", "SIGSYS"),  # with a core
        (replace(SEEN, status=signal.SIGABRT), "crash", "SIGABRT"),
        (replace(SEEN, status=127), "lost", "signal 127 that acceptd did not send"),
    ],
)
def test_each_ending_is_laid_at_whose_door_it_belongs(seen: Observed, ending: str, cause: str) -> None:
    assert classify(seen, LIMITS) == (ending, cause)
    if ending not in {"done", "refused"}:  # no word of the job's makes a good ending of it
        assert classify(replace(seen, finished=False, refused=True), LIMITS)[0] not in {"done"}


def frame(payload: bytes, kind: bytes = messages.JSON) -> bytes:
    return messages.HEADER.pack(kind, len(payload)) + payload


WALLS = frame(b'{"t":"walls","states":{}}')
ENTRY = frame(b'{"t":"entry","path":"a","size":0}')
FULL = frame(b'{"t":"entry","path":"a","size":3}')
LIES: dict[str, tuple[str, bytes, str]] = {
    "more bytes than were allowed": ("manifest", frame(b" " * 5000), "more than 4096 bytes of frames"),
    "a kind that is none": ("manifest", frame(b"{}", b"?"), "a frame of kind"),
    "more frames than were allowed": ("unpack", WALLS + ENTRY * 8, "more than 8 frames"),
    "the next entry before the last one's data": ("unpack", WALLS + FULL * 2, "less data than it announced"),
    "more data than an entry announced": (
        "unpack",
        WALLS + FULL + frame(b"xxxx", messages.DATA),
        "no entry announced",
    ),
    "an unknown type": ("manifest", frame(b'{"t":"verdict"}'), "of an unknown type"),
    "no type": ("manifest", frame(b"{}"), "of an unknown type"),
    "a type that is no text": ("manifest", frame(b'{"t":[]}'), "of an unknown type"),
    "data that no entry announced": ("unpack", frame(b"x", messages.DATA), "data that no entry announced"),
    "data in a job that has none": ("manifest", frame(b"x", messages.DATA), "data that no entry announced"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_stream_that_lies_is_a_violation_at_the_byte_where_it_does(name: str) -> None:
    kind, raw, said = LIES[name]
    reader = Reader(kind, max_bytes=4096, max_frames=8)
    with pytest.raises(ProtocolViolationError, match=said):
        reader.feed(raw)
    assert not reader.grammar.finished


def test_values_without_end_are_refused_before_they_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acceptd.cell.protocol.MAX_VALUES", 100)
    monkeypatch.setattr("acceptd.cell.protocol.parse_json", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(ProtocolViolationError, match="more than 100 values in frames"):
        Reader("manifest", max_bytes=4096, max_frames=8).feed(frame(b'{"t":"walls","a":[' + b"1," * 100))


def test_a_frame_that_comes_byte_by_byte_is_read_once_and_half_a_one_is_no_end() -> None:
    reader = Reader("manifest", max_bytes=4096, max_frames=8)
    for byte in frame(b'{"t":"refused"}')[:-1]:
        assert reader.feed(bytes([byte])) == []
    with pytest.raises(ProtocolViolationError, match="ends inside a frame"):
        reader.close()
    Reader("manifest", max_bytes=4096, max_frames=8).close()
