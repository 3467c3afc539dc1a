"""Between the daemon and its comparer: frames that are broken, and a comparer that answers what was not asked."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.compare import protocol, service
from acceptd.compare.client import Comparer
from acceptd.compare.task import CompareTask
from acceptd.errors import InternalError

pytestmark = pytest.mark.unit

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing at all": (b"", "end of stream"),
    "half a header": (protocol.HEADER.pack(2, 0)[:3], "end of stream inside a message"),
    "half a message": (protocol.HEADER.pack(9, 0) + b"{}", "end of stream inside a message"),
    "more than a frame may hold": (protocol.HEADER.pack(protocol.MAX_FRAME + 1, 0), "too large"),
    "descriptors that did not come": (protocol.HEADER.pack(2, 1) + b"{}", "lost its descriptors"),
    "no JSON": (protocol.HEADER.pack(2, 0) + b"{]", "no JSON"),
    "JSON without end": (protocol.HEADER.pack(100_000, 0) + b"[" * 100_000, "no JSON"),
    "no object": (protocol.HEADER.pack(2, 0) + b"[]", "a JSON object"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_frame_is_the_end_of_the_talk(ends: Ends, name: str) -> None:
    raw, said = BROKEN[name]
    ours, theirs = ends
    theirs.sendall(raw)
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(protocol.ClosedError, match=re.escape(said)):
        protocol.receive(ours)


def test_a_header_that_comes_in_pieces_is_one_header(ends: Ends) -> None:
    ours, theirs = ends
    head = protocol.HEADER.pack(8, 0)
    theirs.send(head[:2])
    assert ours.recv(1, socket.MSG_PEEK) == head[:1]
    theirs.sendall(head[2:] + b'{"a": 1}')
    assert protocol.receive(ours) == ({"a": 1}, [])


def test_what_the_comparer_cannot_take_is_answered_and_it_goes_on(ends: Ends) -> None:
    """Its descriptors are closed whatever was said, or a daemon could be made to run out of them."""
    ours, theirs = ends
    before = len(os.listdir("/proc/self/fd"))
    with open(os.devnull, "rb") as file:
        for message in (
            {"id": 1, "files": ["a", "b"], "task": {}},
            {"id": 2, "files": "a", "task": {}},
            {"id": 3, "files": ["a"], "task": {"pairs": 7}},
            {"id": 4, "ping": True},
        ):
            protocol.send(theirs, message, [file.fileno()])
        theirs.shutdown(socket.SHUT_WR)
        service.serve(ours)
        answers = [protocol.receive(theirs)[0] for _ in range(4)]
    assert answers[0] == {"id": 1, "error": "names and descriptors do not match"}
    assert answers[1] == {"id": 2, "error": "names and descriptors do not match"}
    assert answers[2]["error"].startswith("not a task: ")
    assert answers[3] == {"id": 4, "pong": True}
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_comparer_ends_in_order_where_whoever_asked_has_died(ends: Ends) -> None:
    ours, theirs = ends
    protocol.send(theirs, {"id": 1, "ping": True})
    theirs.close()
    service.serve(ours)  # returns: the reply has nobody to go to


LIAR = """
import os, socket, sys
sys.path.insert(0, {root!r})
from acceptd.compare import protocol
sock = socket.socket(fileno=int(sys.argv[sys.argv.index("--socket") + 1]))
protocol.send(sock, {hello})
while True:
    message, fds = protocol.receive(sock)
    reply = {reply}
    protocol.send(sock, reply, [0] if reply.pop("lend", None) else [])
"""
READY = {"ready": True}
LIES: dict[str, tuple[dict[str, Any], str, str]] = {
    "no greeting": ({"ready": False}, "{}", "the comparer is gone (ClosedError"),
    "another question's answer": (READY, '{"id": 7777, "statistics": {}}', "answered another question"),
    "a refusal": (READY, '{"id": message["id"], "error": "no, I will not"}', "refused a task: no, I will not"),
    "statistics of another form": (
        READY,
        '{"id": message["id"], "statistics": {"outputs": 7}}',
        "not of the agreed form",
    ),
}


def liar(place: Path, hello: dict[str, Any], reply: str) -> Comparer:
    """Return a comparer whose process answers as told, through an interpreter of its own."""
    script, shell = place / "liar.py", place / "python"
    root = str(Path(__file__).resolve().parents[2])
    script.write_text(LIAR.format(root=root, hello=hello, reply=reply))
    shell.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    shell.chmod(0o755)
    return Comparer(interpreter=str(shell))


@pytest.mark.parametrize("name", LIES)
def test_an_answer_that_is_none_is_an_internal_error_and_never_statistics(tmp_path: Path, name: str) -> None:
    hello, reply, said = LIES[name]
    with liar(tmp_path, hello, reply) as comparer, pytest.raises(InternalError, match=re.escape(said)):
        comparer.compare(CompareTask(), {})


def test_descriptors_that_a_comparer_sends_are_closed_at_once(tmp_path: Path) -> None:
    with liar(tmp_path, READY, '{"id": message["id"], "pong": True, "lend": True}') as comparer:
        assert comparer.healthy()
        before = len(os.listdir("/proc/self/fd"))
        assert all(comparer.healthy() for _ in range(3))
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_comparison_that_is_broken_off_leaves_no_answer_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with liar(tmp_path, READY, '{"id": message["id"], "pong": True}') as comparer:
        assert comparer.healthy()
        monkeypatch.setattr(protocol, "receive", broken)
        with pytest.raises(KeyboardInterrupt):
            comparer.compare(CompareTask(), {})
        monkeypatch.undo()
        assert comparer.pid is None
        assert comparer.healthy()
        assert comparer.starts == 2
