"""The hostile report: its page is what was measured, answers are read rightly, children are bounded."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.hostile import members
from bench.hostile.bounded import Bounds, Ended, run, without_network
from bench.hostile.run import Kept
from bench.hostile.tools import OUTCOMES, TOOLS, Answer, Asked, Tool, cleaned, judged
from tools import gen_hostile_report as generator

pytestmark = pytest.mark.unit

NOT_PROMISED = {"trigger"}
"""What acceptd lets pass and says so: README, "What it does not promise"."""
BY_NAME = {tool.name: tool for tool in TOOLS}


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(generator.REPORT.read_text("utf-8"))
    return found


def test_the_page_is_what_the_report_says(report: dict[str, Any]) -> None:
    assert generator.PAGE.read_text("utf-8") == generator.page(report)


def test_the_report_has_every_member_and_every_tool(report: dict[str, Any]) -> None:
    assert [row["name"] for row in report["hostile"]] == [one.name for one in members.hostile()]
    assert len({row["name"] for row in (*report["hostile"], *report["good"])}) == sum(
        len(report[part]) for part in ("hostile", "good")
    )
    for row in (*report["hostile"], *report["good"]):
        assert list(row["answers"]) == [tool.name for tool in TOOLS]
        assert {answer["outcome"] for answer in row["answers"].values()} <= set(OUTCOMES)


def test_acceptd_accepts_nothing_hostile_but_what_it_does_not_promise_and_refuses_nothing_good(
    report: dict[str, Any],
) -> None:
    ours = {row["name"]: row["answers"]["acceptd"]["outcome"] for row in report["hostile"]}
    assert {name for name, outcome in ours.items() if outcome != "detected"} == NOT_PROMISED
    assert all(row.get("named", True) for row in report["hostile"])
    good = {row["name"]: row["answers"]["acceptd"] for row in report["good"]}
    assert {name: one["said"] for name, one in good.items() if one["outcome"] not in {"missed", "warned"}} == {}


def test_no_place_of_a_machine_and_no_control_character_is_in_the_report(report: dict[str, Any]) -> None:
    said = [one["said"] for row in (*report["hostile"], *report["good"]) for one in row["answers"].values()]
    said = [words.replace("/tmp/evil.txt", "") for words in said]  # the name of zip-absolute's member
    assert all(words.isascii() and words.isprintable() for words in said)
    assert not [words for words in said if "/tmp/" in words or "/root/" in words or "/home/" in words]


def test_a_tools_words_stay_words_on_the_page() -> None:
    assert generator.text("a|b`c`<img>[x](http://y)") == r"a&#124;b\`c\`&lt;img&gt;\[x\](http:&#47;&#47;y)"


def test_a_tools_words_lose_places_and_what_a_terminal_obeys(tmp_path: Path) -> None:
    assert cleaned(f"in {tmp_path}/bundle:\n\x1b[2J \u202e no", tmp_path) == r"in /bundle: ?[2J \u202e no"
    assert len(cleaned("x" * 1000)) == 200


# How an end is read


def ended(code: int | None = 0, signal: str = "", *, hung: bool = False, said: str = "") -> Ended:
    return Ended(code, signal, hung, 1.0, 1.0, 1 << 20, said)


def asked(tmp_path: Path, report: object = None) -> Asked:
    file = tmp_path / "report.json"
    if report is not None:
        file.write_text(json.dumps(report))
    member = members.Member("one", "family", "model", lambda path: path)
    return Asked(member, tmp_path / "bundle", (), file, tmp_path / "state")


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_whoever_hangs_or_dies_has_given_no_answer_whatever_it_said_before(tool: Tool, tmp_path: Path) -> None:
    one = asked(tmp_path, {"issues": [], "lint_entries": []})
    assert judged(tool, ended(None, "SIGKILL", hung=True, said="yes"), one).outcome == "hung"
    assert judged(tool, ended(None, "SIGFPE", said="yes"), one).outcome == "crashed"


@pytest.mark.parametrize("tool", TOOLS[1:], ids=lambda tool: tool.name)
def test_a_tool_that_ran_out_of_memory_has_not_judged(tool: Tool, tmp_path: Path) -> None:
    one = asked(tmp_path, {"issues": []})
    for said, signal, code in (
        ("std::bad_alloc", "SIGABRT", None),
        ("no: MemoryError: ", "", 1),
        ("", "SIGKILL", None),
    ):
        assert judged(tool, ended(code, signal, said=said), one).outcome == "memory"


@pytest.mark.parametrize(
    ("name", "end", "report", "outcome"),
    [
        ("ort-load", ended(1, said="warning\nno: Fail: bad\n"), None, Answer("detected", "Fail: bad")),
        ("ort-run", ended(0, said="yes"), None, Answer("missed")),
        (
            "polygraphy-run",
            ended(1, said="[E] NaN\n[E] FAILED | Runtime: 1s"),
            None,
            Answer("detected", "[E] NaN"),
        ),
        ("polygraphy-lint", ended(0), {"lint_entries": []}, Answer("missed")),
        (
            "polygraphy-lint",
            ended(0),
            {"lint_entries": [{"level": "warning", "message": "w"}, {"level": "exception", "message": "e"}]},
            Answer("detected", "e"),
        ),
        (
            "polygraphy-lint",
            ended(0),
            {"lint_entries": [{"level": "warning", "message": "w"}]},
            Answer("warned", "w", ("w",)),
        ),
        (
            "modelaudit",
            ended(1),
            {"issues": [{"severity": "info", "message": "i"}, {"severity": "critical", "message": "c"}]},
            Answer("detected", "c"),
        ),
        (
            "modelaudit",
            ended(0),
            {"issues": [{"severity": "info", "message": "i"}]},
            Answer("warned", "i", ("i",)),
        ),
        ("modelaudit", ended(2, said="error"), {}, Answer("detected", "error")),
        (
            "modelaudit",
            ended(2),
            {"issues": [{"severity": "info", "message": "Schema validation skipped for external-data model"}]},
            Answer("unsure", "Schema validation skipped for external-data model"),
        ),
        ("modelscan", ended(3), {"summary": {"scanned": {"total_scanned": 0}}}, None),
        ("modelscan", ended(0), {"summary": {"scanned": {"total_scanned": 1}}}, Answer("missed")),
        ("modelscan", ended(1), {"issues": [{"description": "os.system"}]}, Answer("detected", "os.system")),
        ("acceptd", ended(0, said='{"verdict": "accepted", "findings": []}'), None, Answer("missed")),
        (
            "acceptd",
            ended(3, said='{"verdict": "held", "findings": [{"code": "a/b", "severity": "hold"}]}'),
            None,
            Answer("detected", "held: a/b"),
        ),
        ("acceptd", ended(70, said="acceptd: internal"), None, Answer("unsure", "acceptd: internal")),
    ],
)
def test_each_tools_answer_is_read_as_its_own_manual_says(
    name: str, end: Ended, report: object, outcome: Answer | None, tmp_path: Path
) -> None:
    found = judged(BY_NAME[name], end, asked(tmp_path, report))
    assert found == outcome if outcome else found.outcome == "not applicable"


def test_an_inconclusive_verdict_is_no_detection(tmp_path: Path) -> None:
    said = '{"verdict": "inconclusive", "findings": []}'
    assert judged(BY_NAME["acceptd"], ended(4, said=said), asked(tmp_path)).outcome == "unsure"


# The bounds of a child

SMALL = Bounds(wall_seconds=60, cpu_seconds=1, memory_bytes=1 << 30, file_bytes=1 << 20)


def child(text: str, place: Path, bounds: Bounds = SMALL) -> Ended:
    return run([sys.executable, "-c", text], bounds, place, {"PATH": os.environ["PATH"]})


def test_positive_control_a_child_that_ends_by_itself(tmp_path: Path) -> None:
    found = child("print('yes')", tmp_path)
    assert (found.code, found.said, found.hung, found.crashed, found.out_of_memory) == (
        0,
        "yes\n",
        False,
        False,
        False,
    )
    assert found.peak_bytes > 1 << 20


def test_a_child_that_computes_for_ever_hangs_and_so_does_one_that_waits_for_ever(tmp_path: Path) -> None:
    assert child("while True: pass", tmp_path).hung
    assert child("import signal; signal.pause()", tmp_path, Bounds(wall_seconds=1)).hung


def test_a_child_that_dies_is_a_crash_and_one_without_memory_is_not(tmp_path: Path) -> None:
    died = child("import os; os.abort()", tmp_path)
    assert (died.signal, died.crashed, died.hung) == ("SIGABRT", True, False)
    full = Ended(None, "SIGSEGV", False, 1.0, 1.0, 1 << 30, "", at_limit=True)
    assert (full.out_of_memory, full.crashed) == (True, False)
    starved = child("bytes(4 << 30)", tmp_path)
    assert (starved.out_of_memory, starved.crashed) == (True, False)


def test_a_small_childs_memory_is_its_own_and_not_that_of_who_started_it(tmp_path: Path) -> None:
    held = bytearray(b"x") * (200 << 20)
    small, large = child("pass", tmp_path), child("x = bytearray(b'x') * (100 << 20)", tmp_path)
    assert small.peak_bytes < 50 << 20 < 100 << 20 < large.peak_bytes < len(held)


def alive(group: int) -> bool:
    """Whether a process of the group still runs; a killed one that nobody has reaped yet does not."""
    states = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            states.append(fields[0])
    return any(state not in {"Z", "X"} for state in states)


def test_what_a_child_left_running_is_ended_with_it(tmp_path: Path) -> None:
    text = "import os, signal\nif os.fork() == 0: signal.pause()\nos.write(1, b'%d' % os.getpgid(0))"
    found = child(text, tmp_path)
    assert found.code == 0
    while alive(int(found.said)):  # it was killed; when the kernel comes to it is not ours to say
        os.sched_yield()


def test_a_child_has_no_network(tmp_path: Path) -> None:
    if not without_network():
        pytest.skip("this host lets nobody make a network namespace")
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0
        found = child(text, tmp_path)
    assert (found.code, found.said.strip().splitlines()[-1]) == (1, "OSError: [Errno 101] Network is unreachable")


def test_answers_of_a_run_that_was_killed_are_kept_but_the_last(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    Kept(file, fresh=True).add("a", "tool 1", {"outcome": "missed"})
    file.write_text(file.read_text() + '\n{"member": "b", "to')
    found = Kept(file, fresh=False)
    assert (found.get("a", "tool 1"), found.get("b", "tool 1"), found.get("a", "tool 2")) == (
        {"outcome": "missed"},
        None,
        None,
    )
    found.add("b", "tool 1", {"outcome": "hung"})
    assert Kept(file, fresh=False).get("b", "tool 1") == {"outcome": "hung"}
    assert Kept(file, fresh=True).get("a", "tool 1") is None


def test_a_child_cannot_fill_the_disk(tmp_path: Path) -> None:
    child("while True: print('x' * 1000)", tmp_path)
    assert (tmp_path / "said.txt").stat().st_size <= SMALL.file_bytes
