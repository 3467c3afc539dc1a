"""What is looked up beside the jobs: its answer or error comes out where it is asked for; then it has ended."""

from __future__ import annotations

import threading

import pytest
import structlog

from acceptd.aside import aside
from tests.threads import only


def test_the_answer_is_had_where_it_is_asked_for_and_the_block_waits_for_nothing_before() -> None:
    go = threading.Event()

    def call() -> int:
        assert go.wait(60)
        return 7

    with aside(call) as answer:
        go.set()  # reached: the block began while the call was still waiting
        assert answer() == 7
        assert answer() == 7


def test_an_error_comes_out_where_the_answer_is_asked_for() -> None:
    def call() -> int:
        raise LookupError("the ledger")

    with aside(call) as answer, pytest.raises(LookupError, match="the ledger"):
        answer()


def test_the_call_has_ended_when_another_error_ends_the_block() -> None:
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        assert go.wait(60)
        ended.set()

    def block() -> None:
        with aside(call):
            assert begun.wait(60)
            go.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        block()
    assert ended.is_set()


def test_where_no_thread_is_to_be_had_it_is_looked_up_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    only(0, monkeypatch)
    with aside(lambda: threading.get_ident()) as answer:
        assert answer() == threading.get_ident()


def test_what_it_logs_is_said_of_the_same_submission() -> None:
    with (
        structlog.contextvars.bound_contextvars(submission="one"),
        aside(structlog.contextvars.get_contextvars) as answer,
    ):
        assert answer() == {"submission": "one"}
