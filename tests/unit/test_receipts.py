"""One line of receipts: what it binds, what a reader refuses, and how lines are appended."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from acceptd.errors import DigestMismatchError, InvalidInputError, LoaderError, MalformedError
from acceptd.release import receipt_log
from acceptd.release.receipt import (
    FOLDED,
    MAX_LINE_BYTES,
    Beside,
    Decision,
    Durations,
    decimal,
    folded,
    make_receipt,
    parse,
    preprocessing_digest,
    verify,
)
from acceptd.release.receipt_log import append
from acceptd.release.receipt_schema import schema
from tests.receipt_world import DIGESTS, PLAIN, changed, receipt
from tests.release_world import World

pytestmark = pytest.mark.unit
SCHEMA: Any = jsonschema.Draft202012Validator(schema())


def test_a_line_reads_back_and_keeps_its_schema() -> None:
    for one in (
        PLAIN,
        receipt(label=None),
        receipt(decision=None, outputs={}, error="InvalidOutputError", validation="failed", timeout="exceeded"),
        receipt(raw_input=DIGESTS["input"], preprocessing=DIGESTS["preprocessing"]),
        receipt(decision=Decision(31, "p\u2028\x00é", 2, "a\nb", decimal(0.1))),
    ):
        line = one.line
        assert b"\n" not in line
        assert line.isascii()
        found = parse(line + b"\n")
        assert (found, found.beside) == (one, one.beside)
        SCHEMA.validate(json.loads(line))


BOUND: dict[str, Any] = {
    "request_id": "r-2", "at": "2026-11-29T12:00:01Z", "model_id": "mosaic/other", "model": "second",
    "channel": "canary", "number": 2, "release_digest": DIGESTS["input"], "bundle_digest": DIGESTS["input"],
    "profile": "gpu", "runtime_identity": DIGESTS["input"], "preprocessing": DIGESTS["input"],
    "raw_input": DIGESTS["input"], "inputs": {"features": DIGESTS["output"]},
    "outputs": {"probabilities": DIGESTS["input"]}, "decision": None,
}  # fmt: skip
DECIDED: dict[str, Any] = {
    "row": 1, "output": "logits", "index": 1, "label": "review", "threshold": "0.5",
}  # fmt: skip


@pytest.mark.parametrize("name", BOUND)
def test_each_bound_member_changes_the_digest(name: str) -> None:
    assert set(BOUND) == {one.name for one in fields(PLAIN)} - {"beside"}
    other = replace(PLAIN, **{name: BOUND[name]})
    assert other.digest != PLAIN.digest
    with pytest.raises(DigestMismatchError):  # and a line in which it was changed is refused
        parse(changed(PLAIN, lambda line: line["bound"].update({name: BOUND[name]})))


@pytest.mark.parametrize("name", DECIDED)
def test_row_label_and_threshold_are_bound(name: str) -> None:
    assert PLAIN.decision is not None
    other = replace(PLAIN, decision=replace(PLAIN.decision, **{name: DECIDED[name]}))
    assert other.digest != PLAIN.digest


def test_what_stands_beside_is_told_and_not_bound() -> None:
    other = receipt(run=5, error="RuntimeRefusedError", validation="none", timeout="met")
    assert other.digest == PLAIN.digest
    assert parse(other.line).beside != PLAIN.beside


def nested(depth: int) -> bytes:
    return PLAIN.line[:-1] + b',"more":' + b"[" * depth + b"]" * depth + b"}"


MALFORMED: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "not UTF-8": b'{"schema":"\xff"}',
    "a list": b"[]",
    "a number": b"1",
    "two values": PLAIN.line + PLAIN.line,
    "byte order mark": b"\xef\xbb\xbf" + PLAIN.line,
    "deep": nested(100),
    "deeper than a reader's stack": nested(30_000),
    "huge": PLAIN.line[:-1] + b" " * MAX_LINE_BYTES + b"}",
    "a key twice": PLAIN.line.replace(b'"schema":1', b'"schema":1,"schema":1'),
    "a bound key twice": PLAIN.line.replace(b'"number":1', b'"number":1,"number":1'),
    "NaN": PLAIN.line.replace(b'"run":1000', b'"run":NaN'),
    "infinity": PLAIN.line.replace(b'"run":1000', b'"run":1e999'),
    "a fraction": PLAIN.line.replace(b'"run":1000', b'"run":1000.0'),
    "an integer of 5,000 digits": PLAIN.line.replace(b'"run":1000', b'"run":' + b"9" * 5000),
    "a lone surrogate": PLAIN.line.replace(b'"label":"accept"', b'"label":"\\ud800"'),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_line_that_is_no_receipt_is_a_typed_error(name: str) -> None:
    assert MALFORMED[name] != PLAIN.line
    with pytest.raises(MalformedError):
        parse(MALFORMED[name])


def put(*path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        *way, last = path
        for name in way:
            document = document[name]
        document[last] = value

    return change


WRONG: dict[str, Callable[[dict[str, Any]], None]] = {
    "schema 2": put("schema", value=2),
    "schema true": put("schema", value=True),
    "an unknown member": put("more", value=1),
    "an unknown bound member": put("bound", "values", value=[0.9]),
    "an unknown duration": put("beside", "durations", "sleep", value=1),
    "bound is no object": put("bound", value=[]),
    "no request id": put("bound", "request_id", value=""),
    "a request id with a newline": put("bound", "request_id", value="a\n"),
    "a long request id": put("bound", "request_id", value="a" * 129),
    "a model id that leaves the directory": put("bound", "model_id", value="../x"),
    "number 0": put("bound", "number", value=0),
    "number true": put("bound", "number", value=True),
    "number as text": put("bound", "number", value="1"),
    "a digest in capitals": put("bound", "release_digest", value="A" * 64),
    "a digest with a newline": put("bound", "bundle_digest", value="a" * 64 + "\n"),
    "inputs as a list": put("bound", "inputs", value=["a" * 64]),
    "a value for a digest": put("bound", "outputs", value={"probabilities": [0.9, 0.1, 0.0]}),
    "65 tensors": put("bound", "inputs", value={str(one): "a" * 64 for one in range(65)}),
    "names of 2,049 bytes": put("bound", "inputs", value={"a" * 2049: "a" * 64}),
    "no day of the calendar": put("bound", "at", value="2026-02-30T12:00:00Z"),
    "a negative row": put("bound", "decision", "row", value=-1),
    "an index without its label": put("bound", "decision", "label", value=None),
    "a long label": put("bound", "decision", "label", value="a" * 257),
    "a threshold as a number": put("bound", "decision", "threshold", value=0.5),
    "a threshold that is spelled long": put("bound", "decision", "threshold", value="0.50"),
    "a threshold that is none": put("bound", "decision", "threshold", value="nan"),
    "a negative duration": put("beside", "durations", "run", value=-1),
    "a duration beyond 2^53": put("beside", "durations", "run", value=2**53),
    "an unknown validation": put("beside", "validation", value="ok"),
    "an unhashable validation": put("beside", "validation", value=[]),
    "an error's message": put("beside", "error", value="ValueError: 0.9 is too much"),
    "a digest that is none": put("digest", value="0"),
}
BEYOND_SCHEMA = {
    "names of 2,049 bytes",
    "no day of the calendar",
    "an index without its label",
    "a threshold that is spelled long",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_line_of_another_form_is_refused_by_reader_and_schema(name: str) -> None:
    line = changed(PLAIN, WRONG[name], seal=name != "a digest that is none" and "bound is" not in name)
    with pytest.raises(MalformedError):
        parse(line)
    assert SCHEMA.is_valid(json.loads(line)) == (name in BEYOND_SCHEMA)


@pytest.mark.parametrize("name", ["schema", "bound", "beside", "digest"])
def test_a_line_that_lacks_a_member_is_refused(name: str) -> None:
    line = changed(PLAIN, lambda document: document.pop(name))
    with pytest.raises(MalformedError):
        parse(line)
    assert not SCHEMA.is_valid(json.loads(line))


def test_the_longest_receipt_that_can_be_made_is_below_the_cap() -> None:
    astral = "\U0001f600"
    tensors = folded({f"{one:02}" + astral * 7: "a" * 64 for one in range(64)})
    assert len(tensors) == 64
    longest = replace(
        PLAIN,
        request_id='"' * 128,
        inputs=tensors,
        outputs={("\x01" * 2000): "a" * 64},
        decision=Decision(2**31, astral * 1024, 2**31, astral * 256, decimal(-1.2345678901234567e-300)),
    )
    assert len(longest.line) < MAX_LINE_BYTES
    assert parse(longest.line) == longest


def test_very_many_tensors_are_bound_by_one_digest() -> None:
    many = {f"input-{one}": "a" * 64 for one in range(65)}
    assert set(folded(many)) == {FOLDED}
    assert folded(many) != folded(many | {"input-3": "b" * 64})
    assert set(folded({"é" * 1025: "a" * 64})) == {FOLDED}


def test_a_receipt_is_verified_against_the_release_that_it_names(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.released("1.0.0")
    old = world.open()
    made = make_receipt(old, model="main", runtime_identity="a" * 64, inputs={}, outputs={})
    assert verify(made.line, old) == made
    world.released("2.0.0")
    with pytest.raises(DigestMismatchError, match="binds another number"):
        verify(made.line, world.open())
    with pytest.raises(DigestMismatchError, match="preprocessing"):
        verify(replace(made, preprocessing="a" * 64).line, old)
    for wrong in ("", "a\nb", "é", "a" * 129):
        with pytest.raises(InvalidInputError) as caught:
            make_receipt(old, model="main", runtime_identity="a" * 64, inputs={}, outputs={}, request_id=wrong)
        assert not wrong or wrong not in str(caught.value)
    with pytest.raises(InvalidInputError) as caught:
        make_receipt(old, model="main", runtime_identity="a" * 64, inputs={}, outputs={}, raw_input="secret text")
    assert "secret" not in str(caught.value)
    world.close()


@pytest.mark.parametrize("manifest", [{}, {"preprocessing": None}, {"preprocessing": []}, {"preprocessing": {}}])
def test_a_manifest_without_preprocessing_declares_none(manifest: dict[str, Any]) -> None:
    assert preprocessing_digest(manifest) is None


# -- the file


def test_lines_of_many_threads_stand_whole(tmp_path: Path) -> None:
    path = tmp_path / "receipts.jsonl"

    def write(worker: int) -> None:
        for one in range(50):
            append(path, receipt(f"{worker}-{one}"))

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [line for line in path.read_bytes().split(b"\n") if line]
    assert {parse(line).request_id for line in lines} == {f"{w}-{one}" for w in range(4) for one in range(50)}
    assert len(lines) == 200
    assert path.stat().st_mode & 0o777 == 0o640


def test_one_write_for_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    monkeypatch.setattr(receipt_log.os, "write", lambda _, data: written.append(data) or len(data))
    append(tmp_path / "r", PLAIN)
    assert written == [PLAIN.line + b"\n"]


def test_a_line_that_was_cut_off_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = tmp_path / "receipts.jsonl", os.write
    append(path, receipt("one"))
    monkeypatch.setattr(receipt_log.os, "write", lambda fd, data: write(fd, data[:40]))
    with pytest.raises(LoaderError, match="took 40 of"):
        append(path, receipt("two"))
    monkeypatch.undo()
    append(path, receipt("three"))
    lines = path.read_bytes().splitlines()
    assert [parse(lines[0]).request_id, parse(lines[2]).request_id] == ["one", "three"]
    with pytest.raises(MalformedError):
        parse(lines[1])


def test_rotation_needs_no_signal(tmp_path: Path) -> None:
    path = tmp_path / "receipts.jsonl"
    append(path, receipt("old"))
    path.rename(tmp_path / "receipts.jsonl.1")
    append(path, receipt("new"))
    assert parse(path.read_bytes()).request_id == "new"


def link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("make", [link, os.mkfifo, os.mkdir], ids=["link", "fifo", "directory"])
def test_only_a_regular_file_is_written_to(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "receipts.jsonl"
    make(path)
    with pytest.raises(LoaderError, match="receipts file"):
        append(path, PLAIN)
    assert not (tmp_path / "elsewhere").exists()


def test_durations_together() -> None:
    assert Durations(1, 2, 3, 4).total == 10
    assert Durations(run=3).total == 3
    assert Beside().durations.total == 0
