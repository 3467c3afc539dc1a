"""What `make soak-load` looks at: each of its looks must be able to say no, and drops are the same for a seed."""

from __future__ import annotations

import collections
import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fleet.mixed import ACCEPTED
from tests.load import promises, samples
from tests.load.drops import FLOOD, LONE, UNWHOLE, Boxes, digest, drops, teams
from tests.load.order import Event, order

pytestmark = pytest.mark.unit

OVERTAKINGS, LANES = 4, 2


def events(claims: list[tuple[str, str]], verdicts: list[str]) -> list[Event]:
    """Return the events of so many claims, then of verdicts in that order."""
    of = dict(claims)
    return [
        *(("claimed", name, team) for name, team in claims),
        *(("judged", name, of[name]) for name in verdicts),
    ]  # type: ignore[return-value]


FLOODED = [*((f"f{number:03}", "loud") for number in range(100)), ("q0", "quiet"), ("q1", "quiet")]


def test_first_come_first_served_starves_a_team_beside_a_flood_and_is_told_as_that() -> None:
    found = order(events(FLOODED, [name for name, _ in FLOODED]))
    late = found.late(teams=2, overtakings=OVERTAKINGS, lanes=LANES)
    assert [one.submission for one in late] == ["q0", "q1"]
    assert late[0].passed == late[0].waiting == 100
    assert found.most_waiting == 102
    assert found.index < 0.6
    assert found.overtaken(LANES) == []


def test_turns_are_told_as_fair() -> None:
    flood = [name for name, team in FLOODED if team == "loud"]
    found = order(events(FLOODED, ["f000", "q0", "f001", "q1", *flood[2:]]))
    assert found.late(teams=2, overtakings=OVERTAKINGS, lanes=LANES) == []
    assert found.overtaken(LANES) == []
    assert found.index > 0.99


def test_the_last_of_a_team_before_its_first_is_told_as_that() -> None:
    names = [f"n{number}" for number in range(10)]
    found = order(events([(name, "one") for name in names], names[::-1]))
    assert {one.submission for one in found.overtaken(LANES)} >= {"n0", "n1", "n2"}


def test_a_drop_that_takes_long_beside_others_of_its_team_was_not_overtaken() -> None:
    claims: list[Event] = [("claimed", f"n{number}", "one") for number in range(10)]
    rest: list[Event] = []
    for number in range(10):
        rest.append(("begun", f"n{number}", "one"))
        if number:
            rest += [("begun", f"n{number}", "one"), ("judged", f"n{number}", "one")]  # one stage after the other
    found = order([*claims, *rest, ("judged", "n0", "one")])
    assert found.overtaken(LANES) == []
    assert [one.own for one in found.waited] == [*range(1, 10), 0]


def test_drops_are_the_same_for_a_seed_and_of_every_kind() -> None:
    names = teams(20)
    first, second = drops(1000, 3, names), drops(1000, 3, names)
    assert [piece.name for piece in first] == [piece.name for piece in second]
    assert [piece.name for piece in first] != [piece.name for piece in drops(1000, 4, names)]
    assert len({piece.name for piece in first}) == 1000
    assert {piece.team for piece in first} == set(names)
    counted = collections.Counter(piece.team for piece in first)
    assert counted[FLOOD] > 8 * counted.most_common(2)[1][1] > 0, "one team floods"
    assert {*UNWHOLE, "lone", "hostile", "archive", "again"} <= {piece.family for piece in first}
    places = [place for place, piece in enumerate(first) if piece.team == LONE]
    assert min(b - a for a, b in itertools.pairwise(places)) > 10, "one at a time"


def test_a_drop_that_is_copied_appears_file_by_file_and_is_whole_in_the_end(tmp_path: Path) -> None:
    names = teams(4)
    (tmp_path / "stage").mkdir()
    for name in names:
        (tmp_path / "inbox" / name).mkdir(parents=True)
    copied = next(piece for piece in drops(60, 1, names) if piece.family == "copied")
    boxes = Boxes(tmp_path, tmp_path / "stage", {})
    boxes.drop(copied)
    place = tmp_path / "inbox" / copied.team / copied.name
    assert digest(place) != boxes.whole[copied.name]
    boxes.settle()
    assert digest(place) == boxes.whole[copied.name]
    assert list((tmp_path / "stage").iterdir()) == []
    boxes.close()


def test_a_changing_drop_changes_until_it_has_no_name_and_its_descriptor_is_closed_then(tmp_path: Path) -> None:
    names = teams(4)
    (tmp_path / "stage").mkdir()
    for name in names:
        (tmp_path / "inbox" / name).mkdir(parents=True)
    changing = next(piece for piece in drops(60, 1, names) if piece.family == "changing")
    boxes = Boxes(tmp_path, tmp_path / "stage", {})
    boxes.drop(changing)
    model = tmp_path / "inbox" / changing.team / changing.name / "model.onnx"
    seen: set[bytes] = set()
    while len(seen) < 2:
        seen.add(model.read_bytes())
    model.unlink()
    while boxes._restless:
        os.sched_yield()
    boxes.close()


def sample(verdicts: int, held: int) -> samples.Sample:
    return samples.Sample(verdicts, verdicts, 0, 0, {"daemon": held}, held, {}, 0, 0, 0, 0, 0)


def test_memory_that_grows_with_every_drop_is_told_and_a_warm_up_is_not() -> None:
    mib = 1 << 20
    leaks = samples.growth([sample(at, 100 * mib + at * 8192) for at in range(0, 10_000, 50)], "daemon")
    assert leaks is not None
    assert leaks.too_much
    assert leaks.slope == pytest.approx(8192, rel=0.01)
    warms = samples.growth(
        [sample(at, 100 * mib + min(at, 1000) * 65536) for at in range(0, 10_000, 50)], "daemon"
    )
    assert warms is not None
    assert not warms.too_much
    assert samples.growth([sample(1, mib)], "daemon") is None
    assert samples.growth([sample(at, mib) for at in range(50)], "comparer") is None


def test_whatever_there_is_more_of_at_rest_is_told() -> None:
    before = samples.Rest({"null": 1, "ledger.sqlite3": 6}, 30, {"warm parent": 2}, 40, ["a"])
    assert samples.more(before, before) == []
    assert samples.more(before, replace(before, descriptors={"null": 1, "ledger.sqlite3": 12})) == []
    second = replace(before, descriptors={"null": 1, "socket": 1}, processes={"warm parent": 2, "sealer": 2})
    first = replace(second, descriptors={"null": 1}, processes={"warm parent": 2, "sealer": 1})
    assert samples.more(first, second, 2) == [], "the second lane's own"
    assert len(samples.more(first, second, 1)) == 1
    for worse in (
        replace(before, descriptors={"null": 2}),
        replace(before, descriptors={"ledger.sqlite3": 100}),
        replace(before, threads=31),
        replace(before, processes={"warm parent": 2, "sealer": 2}),
        replace(before, processes={"job": 1}),
        replace(before, mounts=41),
        replace(before, shared=["a", "sem.x"]),
    ):
        assert len(samples.more(before, worse)) == 1, worse


def test_a_name_of_ours_in_shared_memory_is_seen(tmp_path: Path) -> None:
    (tmp_path / "sem.left").touch()
    assert samples._own(tmp_path) == ["sem.left"]


def test_this_process_is_seen_with_what_it_holds() -> None:
    own = samples.below(os.getpid(), samples.table())
    assert own[0].pid == os.getpid()
    assert own[0].resident > 1 << 20
    assert samples.spent(os.getpid()) > 0


def test_what_lies_where_nothing_may_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.fleet.recorded import Book

    monkeypatch.setattr(promises, "read", lambda _state: (Book(), {}))
    for name in ("inbox/a", "sealed", "tmp", "quarantine", "outbox/a/s1"):
        (tmp_path / name).mkdir(parents=True)
    for name in promises.TOLD:
        (tmp_path / "outbox/a/s1" / name).touch()
    assert promises.left(tmp_path, []) == []
    part = tmp_path / "inbox/a/x.part"
    assert promises.left(tmp_path, [part]) == ["left: gone: inbox/a/x.part"]
    for name in ("inbox/a/.claimed-1", "sealed/s2", "tmp/x", "quarantine/s3", "outbox/a/.tmp-1"):
        (tmp_path / name).touch()
    (tmp_path / "outbox/a/s1/verdict.json").unlink()
    assert len(promises.left(tmp_path, [])) == 6


def test_every_honest_drop_deserves_one_verdict_alone() -> None:
    assert all(piece.verdicts == ACCEPTED for piece in drops(300, 1, teams(5)) if piece.family == "lone")
