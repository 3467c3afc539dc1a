"""What a running daemon shows of ledger, releases, exports and hooks when somebody asks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from acceptd.config import Paths
from acceptd.errors import LedgerError
from acceptd.export.tally import Tally
from acceptd.metrics.look import Look
from acceptd.record.entry import moment_of
from acceptd.record.notary import ANCHORED, UNANCHORED
from acceptd.release.book import read_book
from tests.release_world import MODEL, World

pytestmark = pytest.mark.unit

Figures = dict[tuple[str, ...], float]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def look(world: World, *groups: str, standing: str = ANCHORED, trouble: str = "", **rooms: Any) -> Look:
    notary = SimpleNamespace(standing=standing)
    shown: Any = SimpleNamespace(**{"ledger": world.ledger, "notary": notary, **rooms})
    house: Any = SimpleNamespace(paused=False)
    pulse: Any = SimpleNamespace(trouble=trouble)
    return Look(Paths(world.state), shown, house, pulse, started=5.0, clock=lambda: world.now, groups=groups)


def asked(one: Look) -> Figures:
    registry = CollectorRegistry()
    registry.register(one)
    text = generate_latest(registry).decode()
    return {
        (found.name, *found.labels.values()): found.value
        for family in text_string_to_metric_families(text)
        for found in family.samples
    }


def test_releases_are_counted_by_channel_with_the_moment_of_the_newest(world: World) -> None:
    world.released("1.0.0")
    world.released("2.0.0")
    world.promote(world.accepted("3.0.0"), channel="canary")
    current = read_book(world.ledger).current(MODEL, "production")
    assert current is not None
    found = asked(look(world, "releases"))
    assert found["acceptd_channel_models", "production"] == found["acceptd_channel_models", "canary"] == 1
    assert (found["acceptd_channel_releases", "production"], found["acceptd_channel_releases", "canary"]) == (2, 1)
    newest = found["acceptd_channel_last_release_seconds", "production"]
    assert newest == moment_of(current.activated_at)
    assert found["acceptd_revocations",] == 0


def test_a_revoked_release_is_no_model_of_its_channel_and_the_list_has_an_age(world: World) -> None:
    world.revoke(world.released("1.0.0").bundle_digest)
    os.utime(world.revocations_file, (world.now - 90, world.now - 90))
    found = asked(look(world, "releases"))
    assert found["acceptd_channel_models", "production"] == 0
    assert found["acceptd_channel_releases", "production"] == 1
    assert found["acceptd_revocations",] == 1
    assert found["acceptd_revocations_age_seconds",] == pytest.approx(90)


def test_a_list_from_the_future_has_no_age_below_nothing(world: World) -> None:
    world.revoke(world.released("1.0.0").bundle_digest)
    os.utime(world.revocations_file, (world.now + 500, world.now + 500))
    assert asked(look(world, "releases"))["acceptd_revocations_age_seconds",] == 0


@pytest.mark.parametrize(
    ("standing", "configured", "reached"), [(UNANCHORED, 0, 0), (ANCHORED, 1, 1), ("it does not answer", 1, 0)]
)
def test_an_anchor_out_of_reach_is_told_from_none_at_all(
    standing: str, configured: int, reached: int, world: World
) -> None:
    found = asked(look(world, "ledger", standing=standing))
    assert found["acceptd_anchor_configured",] == configured
    assert found["acceptd_anchor_reached",] == reached
    assert found["acceptd_ledger_entries",] == world.ledger.tree().size
    assert found["acceptd_ledger_bytes",] > 0
    assert ("acceptd_checkpoint_behind_entries",) not in found, "without a checkpoint nothing is behind one"


def test_exports_and_hooks_are_shown_by_name_with_what_worked_and_what_failed(world: World) -> None:
    tally = Tally.load(world.state)
    tally.note("exports", "edge", "/srv/edge", "2026-11-29T12:00:00Z", "")
    tally.note("exports", "edge", "/srv/edge", "2026-11-29T12:01:00Z", "no space")
    tally.note("hooks", "chat", "notify", "2026-11-29T12:02:00Z", "")
    found = asked(look(world, "follow"))
    assert (
        found["acceptd_export_runs_total", "edge", "done"],
        found["acceptd_export_runs_total", "edge", "failed"],
    ) == (1, 1)
    assert (
        found["acceptd_hook_runs_total", "chat", "done"],
        found["acceptd_hook_runs_total", "chat", "failed"],
    ) == (1, 0)


@pytest.mark.parametrize("trouble", ["", "a thread has ended"])
def test_a_daemon_that_does_nothing_any_more_is_not_up(trouble: str, world: World) -> None:
    found = asked(look(world, "daemon", trouble=trouble))
    assert found["acceptd_up",] == float(not trouble)
    assert found["acceptd_started_seconds",] == 5.0
    assert found["acceptd_disk_free_bytes",] > 0


@pytest.mark.parametrize("error", [LedgerError("it is damaged"), OSError(5, "I/O error"), ValueError("no number")])
def test_what_cannot_be_read_is_a_line_of_the_log_and_takes_no_other_figure_with_it(
    error: Exception, world: World
) -> None:
    """Half of a group would read as a drop to zero: of a group that fails nothing is shown."""

    class Damaged:
        def tree(self) -> Any:
            return SimpleNamespace(size=3)

        def size(self) -> int:
            raise error

    with capture_logs() as said:
        found = asked(look(world, "daemon", "ledger", "follow", ledger=Damaged()))
    assert found["acceptd_up",] == 1
    assert not any(name.startswith("acceptd_ledger") for name, *_ in found)
    told = [line for line in said if line["event"] == "not measured"]
    assert told
    assert all((line["what"], line["error"]) == ("ledger", str(error)) for line in told)
