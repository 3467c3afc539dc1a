"""What an export refuses and what it does not trust: one line each, and consumers stay where they were led."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from acceptd.errors import ConfigError, ExportError, LoaderError, StateError
from acceptd.export import events, hook, plan, service, shelf, tally, triton
from acceptd.export.follow import Origin
from acceptd.export.hook import Hook
from acceptd.export.place import Place
from acceptd.export.service import Following
from acceptd.export.settings import ExportTable, HookTable
from acceptd.objectstore.local import Directory
from tests.export_world import Bucketed, Exported
from tests.release_world import MODEL, World
from tests.unit.test_export_triton import manifest, refused, release

pytestmark = pytest.mark.unit
HOME = f"{MODEL}/production"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def failing(number: int) -> Callable[..., Any]:
    def act(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    return act


# -- directories and buckets


def test_a_full_disk_keeps_the_number_that_is_served_and_says_which_directory(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = Exported(world, tmp_path / "out")
    world.released("1")
    exported.served()
    world.released("2")

    def storage(*_: object) -> None:
        raise StateError("sealed storage: No space left on device", remedy="free disk space")

    made = os.mkdir

    def mkdir(path: Any, *mode: int, **more: Any) -> None:
        if os.fspath(path).rpartition("/")[2].startswith(".tmp-"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        made(path, *mode, **more)

    for place, act in (("build.os.mkdir", mkdir), ("build.Copier.copy", storage)):
        with monkeypatch.context() as patch:
            patch.setattr(f"acceptd.export.{place}", act)
            [problem] = exported.follow().problems
        assert f"{tmp_path / 'out'}/.staging" in problem
        assert "No space left" in problem
        assert os.readlink(tmp_path / "out" / HOME / "current") == "000001"
        assert os.listdir(tmp_path / "out" / ".staging") == []
    assert exported.served() == [f"{HOME}/000002"]


def test_what_cannot_be_taken_away_is_told_and_is_not_served(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = Exported(world, tmp_path / "out")
    release_one = world.released("1")
    exported.served()
    world.revoke(release_one.bundle_digest)
    with monkeypatch.context() as patch:
        patch.setattr("acceptd.export.place.remove_tree", lambda *_: [".tmp-1/x: Operation not permitted"])
        [problem] = exported.follow().problems
    assert "not removed: .tmp-1/x: Operation not permitted" in problem
    assert not (tmp_path / "out" / HOME).exists()
    made = Place(tmp_path / "out", "plain")
    made.take_away("mosaic/never/production")  # what is gone is no error
    assert made.served("mosaic/never/production") == ""
    assert Place(tmp_path / "out", "triton").served("repository/never") == ""


def test_one_place_is_not_two_kinds_of_export(world: World, tmp_path: Path) -> None:
    world.released("1")
    Exported(world, tmp_path / "out").served()
    with pytest.raises(ExportError, match="holds an export of another kind") as raised:
        Exported(world, tmp_path / "out", "triton").follow()
    assert raised.value.remedy == "name another directory"
    bucket = Directory(tmp_path / "bucket", make=True)
    Bucketed(world, bucket).served()
    with pytest.raises(ExportError, match="holds an export of another kind") as raised:
        Bucketed(world, bucket, "triton").follow()
    assert raised.value.remedy == "name another prefix"


def test_a_bucket_of_more_than_an_export_holds_needs_a_prefix_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = Directory(tmp_path / "bucket", make=True)
    for number in range(3):
        assert bucket.create(f"a/{number}", b"")
    monkeypatch.setattr(shelf, "MOST_KEYS", 2)
    with pytest.raises(ExportError, match="more than 2 objects") as raised:
        shelf.Shelf(bucket)
    assert raised.value.remedy == "name a prefix of its own"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * ((1 << 20) + 1)])
def test_a_pointer_that_is_no_text_leads_nowhere_and_is_written_anew(
    world: World, tmp_path: Path, content: bytes
) -> None:
    exported = Bucketed(world, Directory(tmp_path / "bucket", make=True))
    world.released("1")
    exported.served()
    (tmp_path / "bucket" / HOME / "current").unlink()
    (tmp_path / "bucket" / HOME / "current").write_bytes(content)
    assert shelf.Shelf(exported.remote).served(HOME) == ""
    assert shelf.Shelf(exported.remote).note("never", 9) is None


def test_a_larger_object_than_what_was_exported_does_not_verify(world: World, tmp_path: Path) -> None:
    exported = Bucketed(world, Directory(tmp_path / "bucket", make=True))
    world.released("1")
    exported.served()
    proofs = tmp_path / "bucket" / HOME / "000001" / ".acceptd" / "export.json"
    proofs.unlink()
    proofs.write_bytes(b" " * (64 << 20))
    problems = " ".join(exported.verify().problems)
    assert "bytes" in problems
    assert HOME in problems
    proofs.unlink()
    assert any(HOME in one for one in exported.verify().problems)


def test_a_folder_that_others_may_write_does_not_verify(world: World, tmp_path: Path) -> None:
    exported = Exported(world, tmp_path / "out")
    world.released("1")
    exported.served()
    (tmp_path / "out" / MODEL).chmod(0o777)
    assert f"{MODEL}: it may be written by others" in exported.verify().problems


def test_a_release_whose_manifest_this_version_cannot_read_is_not_exported() -> None:
    broken = manifest()
    broken["models"] = 7
    with pytest.raises(ExportError, match=r"the manifest in release\.json: models"):
        plan.units("triton", release(broken))


def test_what_a_newer_acceptd_may_accept_is_refused_by_name() -> None:
    assert "optimisation level 'wild' is not known here" in refused(manifest(), optimisation="wild")
    outputs = [{"name": "v", "dtype": "float32", "shape": None}]
    assert "has no declared rank" in refused(manifest(outputs=outputs))
    model: Any = SimpleNamespace(name="main")
    with pytest.raises(ExportError, match="no UTF-8"):
        triton._text(model, "a\ud800")


# -- hooks and events


def origin(world: World) -> Origin:
    return Origin(world.state, world.ledger, world.keys, lambda: world.now)


def told(world: World, script: str = "cat", **more: Any) -> HookTable:
    return HookTable(name="deploy", command=["/bin/sh", "-c", script], **more)


def test_an_event_about_what_a_hook_does_not_select_or_was_never_released_is_none(world: World) -> None:
    one = world.released("1")
    world.revoke(world.accepted("2").digest)
    world.revoke(one.bundle_digest)
    found = list(events.entries(origin(world), -1, world.ledger.tree().size))
    other = told(world, channels=["canary"])
    assert [events.event(origin(world), other, entry) for entry in found] == [None] * len(found)
    whole = [events.event(origin(world), told(world), entry) for entry in found]
    assert [one and one["event"] for one in whole] == ["promote", None, "revoke"]
    unknown: Any = SimpleNamespace(
        type="activated", seq=7, at="", body={"model": MODEL, "channel": "production", "number": 99}
    )
    with pytest.raises(LoaderError, match="has no number 99"):
        events.event(origin(world), told(world), unknown)


def test_a_hook_that_cannot_be_run_is_a_problem_and_no_exception(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = Hook(told(world), ("/bin/true",), None, None)
    for answer, said in (
        (failing(errno.ENOMEM), "it could not be run: [Errno 12] Cannot allocate memory"),
        (lambda *_, **__: SimpleNamespace(stdout=b""), "it could not be run: Expecting value"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(hook.subprocess, "run", answer)
            ran = ready.run({"event": "promote"})
        assert ran.problem.startswith(said)
        assert ran.said == ""


def test_without_root_a_hook_is_the_daemons_own_user_inside_a_wall_or_it_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr("acceptd.policy.trusted.check_owner", lambda *_words: None)
    with pytest.raises(ConfigError, match="only root can run it as 'nobody'"):
        Hook.of(told(world, user="nobody"), world.state)
    monkeypatch.setattr(hook.shutil, "which", lambda _: None)
    with pytest.raises(ConfigError, match="bubblewrap is not there") as raised:
        Hook.of(told(world), world.state)
    assert raised.value.remedy == "install it, or run the daemon as root"


# -- beside a daemon


def following(world: World, *hooks: HookTable, exports: tuple[ExportTable, ...] = ()) -> Following:
    made = Following(world.state, world.ledger, world.keys, exports, hooks)
    made._tally = tally.Tally.load(world.state)
    return made


class Once:
    """A stop that comes after so many looks: the loop of a thread, in the test's own."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def is_set(self) -> bool:
        return self.looks <= 0

    def wait(self, _seconds: float) -> bool:
        self.looks -= 1
        return self.looks <= 0

    def set(self) -> None:
        self.looks = 0


def test_a_ledger_that_is_busy_ends_neither_the_exports_nor_the_hooks(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    export = ExportTable(name="copy", kind="plain", directory=str(tmp_path / "out"))
    made = following(world, exports=(export,))
    made._ready = [Hook(told(world), ("/bin/true",), None, None)]
    world.released("1")

    def busy(*_: object) -> None:
        raise StateError("the ledger is busy", remedy="wait")

    with structlog.testing.capture_logs() as logs:
        made._stop = Once(2)  # type: ignore[assignment]
        with monkeypatch.context() as patch:
            patch.setattr(service, "_stamps", busy)
            made._export()
        made._stop = Once(2)  # type: ignore[assignment]
        with monkeypatch.context() as patch:
            patch.setattr(Following, "_hook", busy)
            made._tell()
        made._stop = Once(1)  # type: ignore[assignment]
        made._export()
    assert [one["event"] for one in logs] == ["exports", "exports", "hooks", "hooks", "export"]
    assert all("the ledger is busy" in one["error"] for one in logs[:4])
    assert os.readlink(tmp_path / "out" / HOME / "current") == "000001"


def test_an_export_that_ends_with_the_daemon_is_no_failure_of_it(world: World, tmp_path: Path) -> None:
    export = ExportTable(name="copy", kind="plain", directory=str(tmp_path / "never"))
    made = following(world, exports=(export,))
    made._stop.set()
    assert made._one(export, whole=True) is False
    assert tally.read(world.state).get("exports", {}) == {}
    made._stop.clear()
    with structlog.testing.capture_logs() as logs:
        assert made._one(export, whole=True) is False
    assert [one["event"] for one in logs] == ["not exported"]
    assert tally.read(world.state)["exports"]["copy"]["failing"] is True


def test_a_release_that_does_not_verify_is_told_to_no_hook(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an intruder wrote over release.json must not reach a deployment as news."""
    world.released("1")
    path = world.release_file(1)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-9] + b"}")
    asked: list[object] = []
    made = following(world)
    ready: Any = SimpleNamespace(table=told(world, tries=2), run=asked.append)
    (seq,) = [one.seq for one in events.entries(origin(world), -1, world.ledger.tree().size)]
    made._stop = Once(99)  # type: ignore[assignment]
    with structlog.testing.capture_logs() as logs:
        assert made._event(ready, origin(world), seq)
    assert asked == []
    assert [one["attempt"] for one in logs if one["event"] == "hook failed"] == [1, 2]
    assert "does not verify" in tally.read(world.state)["hooks"]["deploy"]["problem"]
    made._stop = Once(0)  # type: ignore[assignment]
    assert made._event(ready, origin(world), seq) is False  # ended before it was told: at the next start


def test_what_is_left_of_a_hook_that_is_not_run_yet_says_so() -> None:
    row = {"done": 0, "failures": 0, "failing": False, "what": "/bin/sh", "problem": "", "at": ""}
    (line,) = tally.lines({"hooks": {"deploy": row}})
    assert "not yet run: 0 done, 0 failed" in line
    before = row | {"done": 3, "problem": "it ended with 9\x1b"}
    lines = list(tally.lines({"exports": {"copy": before}}))
    assert "in order" in lines[0]
    assert lines[1].strip() == "before: it ended with 9\\x1b"
