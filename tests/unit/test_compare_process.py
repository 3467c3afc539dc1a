"""The comparer as a process: what it may do, and what happens when it dies."""

from __future__ import annotations

import os
import re
import select
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from acceptd.compare import client, protocol
from acceptd.compare import confine as confinement
from acceptd.compare.client import COMPARE_USER, Comparer
from acceptd.compare.pairing import EXPECTED, INPUTS, outputs_key, pair
from acceptd.compare.task import CompareTask, Pair, Slice
from acceptd.errors import GivenUpError, InternalError
from acceptd.evidence import Case, Named, TensorRef
from acceptd.export import hook
from acceptd.policy.policy import Policy
from tests import judge_world as world

pytestmark = pytest.mark.unit


@pytest.fixture
def comparer() -> Iterator[Comparer]:
    with Comparer() as one:
        yield one


def task(shape: list[int], nbytes: int, *, second: int = 0) -> CompareTask:
    def part(offset: int) -> Slice:
        return Slice(file="f", value=TensorRef(dtype="float32", shape=shape, offset=offset, nbytes=nbytes))

    return CompareTask(
        pairs=[
            Pair(
                set="s",
                model="m",
                output="y",
                against="golden",
                expected=part(0),
                got=part(second),
                rtol=0.0,
                atol=0.0,
            )
        ]
    )


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: rest.strip() for name, _, rest in (line.partition(":") for line in lines)}


def test_the_process_has_no_privilege_left(comparer: Comparer) -> None:
    assert comparer.healthy()
    assert comparer.pid is not None
    found = status(comparer.pid)
    assert set(found["Uid"].split()) != {"0"}
    assert found["NoNewPrivs"] == "1"
    assert int(found["CapEff"], 16) == 0
    if os.geteuid() == 0:
        assert found["Groups"] == ""
    limits = Path(f"/proc/{comparer.pid}/limits").read_text() if os.geteuid() == 0 else "Max file size  0  0"
    assert any(
        line.startswith("Max file size") and line.split()[3:5] == ["0", "0"] for line in limits.splitlines()
    )


def test_where_root_would_be_kept_nothing_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail closed: a uid that was forgotten, or a kernel that refuses a wall, ends the process."""
    calls: list[int] = []
    monkeypatch.setattr(confinement, "_prctl", lambda option, _: calls.append(option))
    monkeypatch.setattr(confinement.os, "geteuid", lambda: 0)
    with pytest.raises(InternalError, match="does not run as root: give it a uid"):
        confinement.confine(None, None)
    assert calls == []
    monkeypatch.undo()
    with pytest.raises(InternalError, match=r"prctl\(99999\): Invalid argument"):
        confinement._prctl(99_999, 0)


def test_nobody_else_has_its_user_who_could_take_hold_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has a process's uid may trace it until it has forbidden that, and keeps hold of it afterwards."""
    own = SimpleNamespace(pw_uid=58_777, pw_gid=58_778)
    monkeypatch.setattr(client.powers, "drops", lambda: True)
    monkeypatch.setattr(client.pwd, "getpwnam", {COMPARE_USER: own}.__getitem__)
    with Comparer() as comparer:
        if os.geteuid() == 0:
            assert comparer.healthy()
            assert comparer.pid is not None
            told = status(comparer.pid)
            assert set(told["Uid"].split()) == {"58777"}
            assert set(told["Gid"].split()) == {"58778"}
            with pytest.raises(PermissionError):  # not dumpable
                as_user(58_777, lambda: os.listdir(f"/proc/{comparer.pid}/fd"))
        assert client.compare_ids() == (58_777, 58_778)


def as_user(uid: int, act: Callable[[], object]) -> None:
    """Do something in a fork as another user; raise PermissionError where it may not."""
    child = os.fork()
    if child == 0:
        try:
            os.setresuid(uid, uid, uid)
            act()
            os._exit(0)
        except PermissionError:
            os._exit(13)
        finally:
            os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 13:
        raise PermissionError


def test_the_unit_brings_that_user_and_no_hook_is_given_it() -> None:
    made = (Path(__file__).resolve().parents[2] / "systemd" / "acceptd.sysusers.conf").read_text()
    assert re.search(rf"^u {COMPARE_USER} - ", made, re.MULTILINE)
    assert hook.NOBODY != COMPARE_USER


def test_statistics_come_back_and_descriptors_stay_open_here_and_close_there(comparer: Comparer) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(np.array([1, 2, 3, 1, 2, 4], np.float32).tobytes())
        file.flush()
        for _ in range(300):  # more requests than the process may have descriptors
            found = comparer.compare(task([3], 12, second=12), {"f": file.fileno()})
            assert (found.outputs[0].exceeding, found.outputs[0].worst_index) == (1, [2])
        os.fstat(file.fileno())
    assert comparer.starts == 1


def test_a_file_that_shrinks_or_lies_is_malformed_and_kills_nobody(comparer: Comparer) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(8))
        file.flush()
        found = comparer.compare(task([3], 12), {"f": file.fileno()})
        assert (found.outputs[0].comparable, found.outputs[0].note) == (False, "malformed")
        assert comparer.compare(task([3], 12), {}).outputs[0].note == "malformed"
    assert comparer.starts == 1


def test_a_comparer_that_does_not_answer_is_killed_and_replaced(comparer: Comparer) -> None:
    assert comparer.healthy()
    assert comparer.pid is not None
    os.kill(comparer.pid, signal.SIGSTOP)
    with pytest.raises(InternalError):
        comparer.compare(task([1], 4), {}, seconds=0.2)
    assert comparer.pid is None
    assert comparer.compare(task([1], 4), {}).outputs[0].note == "malformed"
    assert comparer.starts == 2


def test_a_comparer_that_was_killed_is_replaced(comparer: Comparer) -> None:
    assert comparer.healthy()
    assert comparer.pid is not None
    process = comparer._process
    assert process is not None
    os.kill(comparer.pid, signal.SIGKILL)
    process.wait()
    assert comparer.healthy()
    assert comparer.starts == 2


def test_a_comparer_that_cannot_start_is_an_internal_error() -> None:
    with Comparer(interpreter="/nonexistent/python") as broken, pytest.raises(InternalError):
        broken.compare(CompareTask(), {})
    with Comparer(interpreter="/bin/false") as mute:
        assert not mute.healthy()


def test_a_task_that_is_too_large_is_refused_here() -> None:
    with pytest.raises(ValueError, match="too large"):
        protocol.send(None, {}, list(range(protocol.MAX_DESCRIPTORS + 1)))  # type: ignore[arg-type]


def test_the_process_ends_with_its_socket() -> None:
    one = Comparer()
    assert one.healthy()
    process, sock = one._process, one._socket
    assert process is not None
    assert sock is not None
    sock.close()
    assert process.wait() == 0
    one.close()


def test_the_process_ends_in_order_when_its_daemon_died_with_a_reply_unread(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """unix(7): closing with data unread is a reset for the other end, and no end of file."""
    one = Comparer()
    assert one.healthy()
    process, sock = one._process, one._socket
    assert process is not None
    assert sock is not None
    protocol.send(sock, {"id": 1, "ping": True})
    select.select([sock], [], [])
    sock.close()
    assert process.wait(60) == 0  # the bound only ends a failure
    one.close()
    assert capfd.readouterr().err == ""


# -- pairing


def test_goldens_repeats_and_the_run_without_optimisation_are_paired() -> None:
    given = world.submission()
    record = next(job for job in given.jobs if job.vectors is not None)
    found = pair(world.a_manifest(), None, Policy(), record.vectors, given.jobs)
    assert [(one.set, one.against) for one in found.pairs] == [
        ("test_data_set_0", "golden"),
        ("test_data_set_0", "unoptimised"),
        ("test_data_set_1", "golden"),
        ("test_data_set_1", "unoptimised"),
        ("test_data_set_0", "repeat"),
        ("test_data_set_1", "repeat"),
    ]
    golden = found.pairs[0]
    assert golden.got is not None
    assert (golden.expected.file, golden.got.file, golden.kind) == (EXPECTED, outputs_key("main"), "probabilities")
    assert (golden.rtol, golden.atol) == (0.0, 1e-6)
    assert (found.pairs[-1].rtol, found.pairs[-1].atol) == (0.0, 0.0)
    other = found.pairs[1].got
    assert other is not None
    assert other.file == outputs_key("main", "unoptimised")
    assert [sample.key for sample in found.groups[0].samples] == list(world.SETS)
    first = found.groups[0].samples[0].inputs
    assert first is not None
    assert first[0].file == INPUTS
    assert found.problems == []


def test_probabilities_of_finite_probes_inside_the_domain_stand_against_themselves() -> None:
    named = [Named(name="probabilities", value=world.ref())]
    probes = [
        Case(set=f"probe:{name}", repeat=0, outputs=named, in_domain=inside, finite=finite)
        for name, inside, finite in (("high", True, True), ("nan", False, True), ("low", True, False))
    ]
    run = world.run(cases=[*world.golden_cases(), *probes])
    found = pair(world.a_manifest(), None, Policy(), world.vectors().vectors, [run])
    (own,) = [one for one in found.pairs if one.against == "probe"]
    assert (own.set, own.kind, own.expected) == ("probe:high", "probabilities", own.got)

    def values(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0]["kind"] = "values"

    found = pair(world.a_manifest(values), None, Policy(), world.vectors().vectors, [run])
    assert "probe" not in {one.against for one in found.pairs}


def test_what_the_run_did_not_give_is_paired_with_nothing() -> None:
    cases = [case.model_copy(update={"outputs": []}) for case in world.golden_cases()]
    record = world.vectors()
    found = pair(world.a_manifest(), None, Policy(), record.vectors, [record, world.run(cases=cases)])
    assert [(one.set, one.got) for one in found.pairs] == [(name, None) for name in world.SETS]


def test_expected_values_without_a_place_become_a_problem() -> None:
    sets = world.vector_sets(expected=[{"name": "", "value": world.ref()}, {"name": "", "value": world.ref()}])
    vectors = world.vectors().vectors
    assert vectors is not None
    found = pair(world.a_manifest(), None, Policy(), vectors.model_copy(update={"sets": sets}), [world.run()])
    assert [one.code for one in found.problems] == ["vectors/unpaired", "vectors/unpaired"]
    assert [one.against for one in found.pairs] == ["repeat", "repeat"]


def test_who_waits_for_another_ones_comparison_is_heard_when_he_is_given_up() -> None:
    """One submission's gigabytes must not hold the lease of another that was cancelled meanwhile."""
    looked = []

    def check() -> None:
        looked.append(True)
        if len(looked) == 3:
            raise GivenUpError("no longer wanted")

    with Comparer() as comparer:
        with comparer._lock, pytest.raises(GivenUpError):  # as while another submission is compared
            comparer.compare(task([1], 4), {}, check=check)
        assert comparer.compare(task([1], 4), {}).outputs[0].note == "malformed"
