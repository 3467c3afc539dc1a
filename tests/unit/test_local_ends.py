"""A local check: what one bundle raises is its own, and a release whose bytes are gone is no fault of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from acceptd import local, opening
from acceptd.cell.blobs import Blob, closing_blob
from acceptd.errors import CellUnavailableError, ConfigError, LedgerError, UsageError
from acceptd.evidence import JobRecord, Walls
from acceptd.judge.beside import Beside
from acceptd.ordering import Shelf
from acceptd.policy.load import digest
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.regression import RELEASE, PriorRun
from acceptd.rules import Rules
from acceptd.wall_facts import standing
from tests import judge_world as world
from tests.regression_judged import release

pytestmark = pytest.mark.unit
RULES = Rules(Policy(), digest(Policy()), Profile(), digest(Profile()), Path("/nonexistent"))


class Bench:
    """Runs each task where it is offered."""

    def __init__(self, sealed: Path) -> None:
        self.rules, self.share = RULES, None
        self.tools = SimpleNamespace(sealed=sealed)
        self.workers = SimpleNamespace(offer=lambda task: task.run(None))


def bench(sealed: Path) -> Any:
    return cast("Any", Bench(sealed))


ERRORS = (UsageError("/x is neither a directory nor a .zip", remedy="give another"), KeyError("ours"))


@pytest.mark.parametrize("error", ERRORS, ids=["somebody's to mend", "ours"])
def test_what_one_bundle_raises_comes_out_where_its_report_is_waited_for(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(local, "_judge", judge)
    for check in (local.check_one, local.examine_one):
        with pytest.raises(type(error)) as caught:
            check(bench(tmp_path), tmp_path)
        assert caught.value is error


def test_one_broken_case_does_not_end_the_suite_and_is_never_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(_place: Any, path: Path, *_: Any, **__: Any) -> Any:
        raise {"bad": ERRORS[0], "worse": ERRORS[1]}[path.name]

    monkeypatch.setattr(local, "_judge", judge)
    found: dict[str, dict[str, Any]] = {}
    local.check_many(
        bench(tmp_path), [Path("bad"), Path("worse")], done=lambda path, report: found.update({path.name: report})
    )
    assert {name: (one["verdict"], one["reason"]) for name, one in found.items()} == {
        "bad": ("inconclusive", "/x is neither a directory nor a .zip; give another"),
        "worse": ("inconclusive", "internal error: KeyError: 'ours'"),
    }
    assert all(one["error"] == one["reason"] for one in found.values())


@pytest.mark.parametrize("name", ["b.zip", "b.tar", "b.tar.gz"])
def test_an_archive_is_one_by_its_name_and_a_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is neither a directory nor a"):
        local.kind_of(tmp_path / name)
    (tmp_path / name).touch()
    assert local.kind_of(tmp_path / name) == name[2:]
    (tmp_path / "model.onnx").touch()
    with pytest.raises(UsageError) as caught:
        local.kind_of(tmp_path / "model.onnx")
    assert "acceptd bundle init MODEL.onnx" in caught.value.remedy


# -- the current release beside a bundle


@pytest.fixture
def blob(tmp_path: Path) -> Iterator[Blob]:
    with closing_blob(tmp_path) as made:
        yield made


def beside(blob: Blob, shelf: Shelf | None, asked: list[Any], **changes: Any) -> PriorRun:
    def job(*words: Any, **more: Any) -> JobRecord:
        asked.append((words, more))
        return world.run()

    prior = release(**changes)
    (model,) = prior.models
    declared = next(iter(prior.declared.models)) if prior.declared is not None else None
    mine = Beside("main", older=model, declared=declared)
    return PriorRun(RULES, prior, mine, shelf, cast("Any", job), blob, blob)


def refuses(error: Exception) -> Shelf:
    def verify(_paths: list[str]) -> None:
        raise error

    return Shelf("store", "x", verify)


@pytest.mark.parametrize(
    ("shelf", "said"),
    [
        (None, "nobody keeps its bytes here"),
        (refuses(LedgerError("model.onnx has other bytes " + "x" * 1000)), "model.onnx has other bytes xxx"),
        (refuses(ConfigError("the store is gone", remedy="restore it")), "the store is gone; restore it"),
    ],
    ids=["no shelf", "other bytes", "no store"],
)
def test_a_release_whose_bytes_are_not_there_is_told_and_nothing_of_it_is_run(
    shelf: Shelf | None, said: str, blob: Blob
) -> None:
    asked: list[Any] = []
    (record,) = beside(blob, shelf, asked)({})
    assert (record.ending, record.cause, record.variant, asked) == ("unavailable", RELEASE, "prior", [])
    assert record.message.startswith(said)
    assert len(record.message) <= 600


def test_a_cell_that_is_away_is_no_release_that_is_missing(blob: Blob) -> None:
    with pytest.raises(CellUnavailableError):
        beside(blob, refuses(CellUnavailableError("no cell")), [])({})


@pytest.mark.parametrize("known", [True, False])
def test_a_release_whose_manifest_is_not_known_is_run_on_goldens_alone(known: bool, blob: Blob) -> None:
    asked: list[Any] = []
    changes: dict[str, Any] = {} if known else {"declared": None}
    order = {"declared": {"outputs": ["mine"]}, "dims": {}, "sha256": "of the submission"}
    beside(blob, Shelf("store", "x"), asked, **changes)(order)
    (((kind, files, spec, _), more),) = asked
    assert (kind, files, spec["sha256"], more["variant"]) == (
        "run",
        {"model.onnx": "model.onnx"},
        "e" * 64,
        "prior",
    )
    assert (spec.get("inferred"), spec.get("probes")) == ((None, None) if known else (True, False))
    assert (spec.get("drawn_for") == ["mine"]) == known


# -- walls


def record(states: dict[str, str], **notes: str) -> JobRecord:
    return world.run(walls=Walls.model_validate({"states": states, "notes": notes}))


def test_the_worst_that_any_job_saw_of_a_wall_stands_with_its_reason() -> None:
    host = {"network": "enforced", "seccomp": "unavailable"}
    jobs = [
        record({"network": "enforced", "seccomp": "enforced"}),
        record({"network": "failed", "landlock": "unavailable"}, network="a socket was opened", landlock="old"),
        record({"network": "enforced"}),
        world.run(walls=None),
    ]
    worst, why = standing(host, {"seccomp": "no filter"}, jobs)
    assert worst == {"network": "failed", "seccomp": "unavailable", "landlock": "unavailable"}
    assert why == {"seccomp": "no filter", "network": "a socket was opened", "landlock": "old"}
    assert host == {"network": "enforced", "seccomp": "unavailable"}, "the host's own are left as they are"


# -- figures


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e400", "0.5"])
def test_a_figure_that_no_json_number_can_be_is_its_text(text: str) -> None:
    assert world.stats(max_abs=text).max_abs == text


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1_0", "\uff11", "one", "0x10", "1" * 41])
def test_text_that_is_no_figure_is_no_evidence(text: str) -> None:
    with pytest.raises(ValidationError):
        world.stats(max_abs=text)


# -- what the daemon's parts tell it


def test_a_warm_parent_that_was_replaced_is_counted_by_its_reason() -> None:
    counted: list[str] = []
    helm: Any = SimpleNamespace(count=SimpleNamespace(replaced=counted.append))
    opening._replaced(helm, "it grew")
    assert counted == ["it grew"]
