"""What commands tell people of what they found: selftest, reaccept, replay, verify, profile, config, web."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from acceptd import selftest
from acceptd.cli import replay as replaying
from acceptd.cli.profile import _libraries, _side_by_side
from acceptd.cli.reaccept import print_reaccepted
from acceptd.errors import CellUnavailableError
from acceptd.policy.profile import Profile
from acceptd.reaccept import run as reaccepting
from acceptd.reaccept.result import Reaccepted
from acceptd.reaccept.standing import Standing
from acceptd.replay.again import Replayed
from acceptd.runtime.measure import Measured
from acceptd.runtime.pins import LIBRARY, Difference
from acceptd.selftest import Row
from tests import called
from tests.release_world import MODEL

pytestmark = pytest.mark.unit


def printed(show: Any, *words: Any) -> list[str]:
    out = io.StringIO()
    show(Console(file=out, width=200, markup=False, emoji=False, highlight=False), *words)
    return [line.rstrip() for line in out.getvalue().splitlines()]


# -- selftest

ROWS = [
    Row("network", "open a socket", "refused", "refused", True),
    Row("files", "read /etc/shadow", "refused", "read [bold]root", False),
    Row("files", "list /", "refused", "refused", True),
]


def attacked(monkeypatch: pytest.MonkeyPatch, rows: list[Row]) -> None:
    monkeypatch.setattr(selftest, "attack", lambda: iter(rows))


def test_one_escape_that_got_through_is_an_audit_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    attacked(monkeypatch, ROWS)
    done = called.run("selftest")
    lines = done.stdout.splitlines()
    assert done.returncode == 5
    assert [line.split()[:2] for line in lines[1:4]] == [["ok", "files"], ["!!", "files"], ["ok", "network"]]
    assert "read [bold]root" in lines[2]
    assert lines[4].startswith("2 of 3 held, ")
    assert lines[4].endswith("; acceptd doctor names the walls and remedies")
    failed = called.run("selftest", "--failed").stdout.splitlines()
    assert [line.split()[0] for line in failed[1:]] == ["!!", "2"]
    document = json.loads(called.run("selftest", "--json").stdout)
    assert (document["probes"], document["broken"]) == (3, 1)
    assert [one["probe"] for one in document["rows"] if not one["held"]] == ["read /etc/shadow"]


def test_where_every_wall_held_it_ends_with_0_and_prints_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    attacked(monkeypatch, [one for one in ROWS if one.held])
    done = called.run("selftest", "--failed")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert done.stdout.startswith("2 of 2 held, ")


def test_a_host_without_a_cell_is_no_host_whose_walls_held(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> Iterator[Row]:
        raise CellUnavailableError("bubblewrap is missing", remedy="install it")
        yield

    monkeypatch.setattr(selftest, "attack", nothing)
    done = called.run("selftest")
    assert done.returncode not in {0, 5}
    assert "bubblewrap is missing" in done.stderr


@pytest.mark.parametrize(
    ("codes", "verdict", "found", "held"),
    [
        (("graph/cycle",), "rejected", ["graph/cycle"], True),
        (("graph/cycle",), "rejected", ["other/code"], False),
        (("graph/cycle",), "inconclusive", [], False),
        (("graph/cycle",), "accepted", [], False),
        ((), "accepted", [], True),
        ((), "held", ["contract/missing"], False),
    ],
)
def test_a_hostile_model_has_to_be_rejected_for_what_it_is(
    codes: tuple[str, ...], verdict: str, found: list[str], held: bool, tmp_path: Path, monkeypatch: Any
) -> None:
    report = {"verdict": verdict, "findings": [{"code": code, "severity": "reject"} for code in found]}
    monkeypatch.setattr(selftest.local, "check_one", lambda _bench, _place: report)
    bundle = replace(selftest.BUNDLES[0], codes=codes)
    row = selftest._judged(cast("Any", None), bundle, tmp_path)
    assert (row.held, row.got.partition(":")[0]) == (held, verdict)
    assert (tmp_path / bundle.name).is_dir()


# -- reaccept


def stands(model: str = MODEL, **changes: Any) -> Standing:
    made = Standing(model, "ab" * 32, (("production", 3),), "accepted", 7, "", frozenset(), (), revoked=False)
    return replace(made, **changes)


def test_what_would_not_pass_is_told_with_what_is_new_about_it() -> None:
    codes = ("contract/missing", "runtime/advisory")
    found = [
        Reaccepted(stands(), "passes", "as it is"),
        Reaccepted(
            stands("mosaic/two", revoked=True), "held", "an [advisory]", codes, ("runtime/advisory",), (), True
        ),
    ]
    assert printed(print_reaccepted, found, "under cpu by policy next") == [
        f"passes              {MODEL}  abababababab  production 3",
        "held                mosaic/two  abababababab  production 3  revoked",
        "  an [advisory]",
        "    contract/missing",
        "  + runtime/advisory",
        "2 promoted, under cpu by policy next: 1 held, 1 passes",
        "held-out vectors were not evaluated: their budget is for submissions",
    ]


def test_a_state_without_a_release_has_nothing_to_accept_again(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"))
    assert called.run("init", *state).returncode == 0
    words = ("reaccept", *state)
    done = called.run(*words)
    assert (done.returncode, done.stdout) == (0, "0 promoted, under cpu by policy default: nothing is promoted\n")
    document = json.loads(called.run(*words, "--json", "--profile", "cpu").stdout)
    assert (document["releases"], document["policy"], document["profiles"]) == ([], "default", ["cpu"])


class Bench:
    """Runs each task where it is offered."""

    def __init__(self, sealed: Path) -> None:
        self.rules = SimpleNamespace(profile=Profile())
        self.tools, self.share = SimpleNamespace(sealed=sealed), None
        self.workers = SimpleNamespace(offer=lambda task: task.run(None))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(5, "Input/output error"), "OSError: [Errno 5] Input/output error"),
        (CellUnavailableError("no cell"), "CellUnavailableError: no cell"),
    ],
)
def test_a_bundle_that_could_not_be_run_is_inconclusive_and_holds_up_no_other(
    error: Exception, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one(_place: Any, _state: Path, _ledger: Any, standing: Standing, *_: Any) -> Reaccepted:
        if standing.model_id != MODEL:
            return Reaccepted(standing, "passes", "")
        raise error

    monkeypatch.setattr(reaccepting, "_one", one)
    done: list[Reaccepted] = []
    standings = [stands(), stands("mosaic/two")]
    reaccepting.run_again(cast("Any", Bench(tmp_path)), tmp_path, cast("Any", None), standings, done=done.append)
    assert [(found.status, found.reason) for found in done] == [("inconclusive", said), ("passes", "")]


def test_a_fault_of_ours_is_no_outcome_of_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def one(*_: Any) -> Reaccepted:
        raise ZeroDivisionError

    monkeypatch.setattr(reaccepting, "_one", one)
    with pytest.raises(ZeroDivisionError):
        reaccepting.run_again(
            cast("Any", Bench(tmp_path)), tmp_path, cast("Any", None), [stands()], done=lambda _found: None
        )


# -- replay


def replayed(status: Any, **changes: Any) -> Replayed:
    return replace(Replayed("s-1", "mosaic", MODEL, "2026-11-30T00:00:00Z", status, "accepted"), **changes)


def test_what_would_change_is_told_by_submission_and_what_stays_by_its_number() -> None:
    found = [
        replayed("unchanged", new="accepted", drifted=True),
        replayed("changed", new="held", reason="two codes", added={"a/b": 2, "c/d": 1}, removed={"e/f": 1}),
        replayed("needs-rerun", reason="probes.draws changed", model="", submission="s-2"),
    ]
    assert printed(replaying.print_replayed, found) == [
        f"accepted -> held           s-1  {MODEL}",
        "  two codes",
        "  + a/b x2",
        "  + c/d",
        "  - e/f",
        "needs-rerun                accepted                   s-2  mosaic",
        "  probes.draws changed",
        "3 submissions: 1 changed, 1 needs-rerun, 1 unchanged",
        "1 of them are judged otherwise by this version of acceptd under their own policy",
    ]
    assert printed(replaying.print_replayed, []) == ["0 submissions: none"]


def test_a_long_replay_says_how_far_it_is_and_takes_that_away_again(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(replaying, "_SECOND", 0.0)
    given = [replayed("unchanged")] * 3
    assert list(replaying._progress(iter(given), 3)) == given
    assert terminal.getvalue() == "\rreplayed 1 of 3\rreplayed 2 of 3\rreplayed 3 of 3\r\x1b[K"


# -- profiles


def test_a_runtime_that_is_not_as_pinned_says_the_first_difference() -> None:
    libraries = [SimpleNamespace(name="libm.so.6")] * 3
    record: Any = SimpleNamespace(libraries=libraries)
    pinned = Profile(libraries={"libm.so.6": "cd" * 32})
    other = Difference(LIBRARY, "libm.so.6", "other-digest", "cd" * 32, "ab" * 32)
    shown = [_libraries(Measured(*of)) for of in (
        (Profile(),), (Profile(), record), (pinned, record), (pinned, record, "", (other, other))
    )]  # fmt: skip
    assert shown == [
        "", "3 mapped, none pinned", "3 mapped, all pinned",
        f"3 mapped; 2 not as pinned, first: libm.so.6 has the SHA-256 {'ab' * 32}, pinned is {'cd' * 32}",
    ]  # fmt: skip


def test_a_profile_that_is_refused_stands_beside_the_others_with_the_reason_alone() -> None:
    refused = Measured(Profile.model_construct(name="gpu"), problem="gpu.toml:3: no key", refused=True)
    lines = printed(lambda out: out.print(_side_by_side([Measured(Profile(), problem="no cell"), refused])))
    assert lines[0].split() == ["cpu", "gpu"]
    assert lines[-1].split() == ["problem", "no", "cell", "gpu.toml:3:", "no", "key"]
    assert lines[1].split()[-1] == "—", "nothing is said of what nobody measured"


# -- config


@pytest.mark.parametrize(
    ("named", "variable", "source"), [(True, True, "--state"), (False, True, "ACCEPTD_STATE"), (False, False, "")]
)
def test_where_the_state_directory_comes_from_is_told(
    named: bool, variable: bool, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acceptd.effective import state_source

    monkeypatch.delenv("ACCEPTD_STATE", raising=False)
    if variable:
        monkeypatch.setenv("ACCEPTD_STATE", str(tmp_path))
    told = state_source(named)
    assert told == source if source else "a checkout's var/, else /var/lib/acceptd" in told
