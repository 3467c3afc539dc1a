"""The content pass: every subscriber gets its bytes, once, in order, and no element in two pieces."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sandbox.inspect import bytes as content
from sandbox.inspect.bytes import BytesSource, FileSource, Span
from sandbox.messages import RefusedError

pytestmark = pytest.mark.unit


class Kept:
    """Keeps what it is fed."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.pieces: list[int] = []
        self.ends = 0

    def feed(self, at: int, block: memoryview) -> None:
        assert at == len(self.data)
        self.data += block
        self.pieces.append(len(block))

    def end(self) -> None:
        self.ends += 1


def numbers(size: int) -> bytes:
    return bytes((index * 7 + index // 251) & 0xFF for index in range(size))


@pytest.mark.parametrize("chunk", [16, 17, 64, 1000])
def test_whole_files_and_spans_at_any_offset(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "CHUNK", chunk)
    data = numbers(500)
    for start in range(0, 40, 3):
        for stop in (start, start + 1, start + 15, start + 16, start + 33, start + 160, 500):
            whole, part, rest = Kept(), Kept(), Kept()
            spans = [Span(stop, 500, rest), Span(start, stop, part)]
            assert content.read(BytesSource(data), [whole], spans) == 500
            assert bytes(whole.data) == data
            assert bytes(part.data) == data[start:stop]
            assert bytes(rest.data) == data[stop:]
            assert all(size % content.ELEMENT == 0 for size in part.pieces[:-1])
            assert (whole.ends, part.ends, rest.ends) == (1, 1, 1)


def test_spans_that_overlap_are_refused_and_empty_ones_do_not() -> None:
    with pytest.raises(ValueError, match="overlap"):
        content.read(BytesSource(bytes(9)), [], [Span(0, 5, Kept()), Span(4, 9, Kept())])
    assert content.disjoint([(0, 5), (3, 3), (5, 9), (9, 9)])


def test_a_file_is_read_once_and_one_that_shrank_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(numbers(3000))
    with path.open("rb") as file:
        source = FileSource(file.fileno(), 3000)
        assert content.read(source, [Kept(), Kept()]) == 3000
        assert source.read_bytes == 3000
        with pytest.raises(RefusedError):
            content.read(FileSource(file.fileno(), 3001), [])
    assert content.read(BytesSource(b""), [Kept()]) == 0


class Marks:
    """Finds where a byte stands, and keeps blocks and places in the order in which they come."""

    def __init__(self, byte: int) -> None:
        self.byte = byte
        self.places: list[int] = []
        self.data = bytearray()
        self.threads: set[int] = set()
        self.ends = 0

    def search(self, block: memoryview) -> list[int]:
        self.threads.add(threading.get_ident())
        return [index for index, one in enumerate(block) if one == self.byte]

    def found(self, at: int, block: memoryview, found: list[int]) -> None:
        assert at == len(self.data)
        self.data += block
        self.places += [at + index for index in found]

    def feed(self, at: int, block: memoryview) -> None:
        self.found(at, block, self.search(block))

    def end(self) -> None:
        self.ends += 1


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 64 * 5, 64 * 17 + 3])
def test_a_large_file_is_searched_in_threads_and_told_in_order(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "CHUNK", 64)
    data, whole, part = numbers(size), Kept(), Kept()
    spans = [Span(size // 3, size // 2, part)]
    serial, beside = Marks(7), Marks(7)
    content.read(BytesSource(data), [], [], serial)
    monkeypatch.setattr(content, "LARGE", 1)
    assert content.read(BytesSource(data), [whole], spans, beside) == size
    assert bytes(beside.data) == bytes(serial.data) == bytes(whole.data) == data
    assert bytes(part.data) == data[size // 3 : size // 2]
    assert beside.places == serial.places == [index for index, one in enumerate(data) if one == 7]
    assert (serial.ends, beside.ends) == (1, 1)
    assert serial.threads <= {threading.get_ident()}
    assert threading.get_ident() not in beside.threads
    assert len(beside.threads) == min(content.SEARCHERS, -(-size // 64))


@pytest.mark.parametrize("room", [0, 1])
def test_where_no_thread_is_to_be_had_the_file_is_searched_all_the_same(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, begun = threading.Thread.start, []

    def limited(self: threading.Thread) -> None:
        if len(begun) >= room:
            raise RuntimeError("can't start new thread")
        begun.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)
    monkeypatch.setattr(content, "CHUNK", 64)
    monkeypatch.setattr(content, "LARGE", 1)
    marks = Marks(7)
    assert content.read(BytesSource(numbers(1000)), [], [], marks) == 1000
    assert bytes(marks.data) == numbers(1000)
    assert marks.places == [index for index, one in enumerate(numbers(1000)) if one == 7]


def test_a_search_that_fails_is_an_error_and_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "CHUNK", 64)
    monkeypatch.setattr(content, "LARGE", 1)
    marks = Marks(7)
    monkeypatch.setattr(marks, "search", lambda block: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        content.read(BytesSource(numbers(1000)), [], [], marks)
