"""Exports of a small state directory with real keys, a real ledger and real bundles."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from acceptd.export.bucket import BucketTarget
from acceptd.export.directory import Target
from acceptd.export.follow import Followed, Origin, follow
from acceptd.export.settings import Kind
from acceptd.export.shelf import Shelf
from acceptd.export.verify import Report, examine, verify
from acceptd.objectstore.remote import Remote
from acceptd.record.keys import Keyring
from tests.release_world import World

SERVABLE: dict[str, Any] = {
    "schema": 1,
    "bundle": {"id": "mosaic/evidence-disposition", "version": "1.0.0"},
    "dims": {"batch": {"min": 1, "max": 32}, "seq": {"min": 1, "max": 9}},
    "models": [
        {
            "name": "main",
            "file": "model.onnx",
            "inputs": [{"name": "features", "dtype": "float32", "shape": ["batch", 4]}],
            "outputs": [{"name": "probabilities", "dtype": "float32", "shape": ["batch", 3]}],
        }
    ],
}
"""A manifest that Triton can serve."""


class Exported:
    """A world and a directory that it exports to."""

    def __init__(self, world: World, root: Path, kind: Kind = "plain", keep: int = 2) -> None:
        self.world, self.root = world, root
        root.mkdir(exist_ok=True)
        self.target = Target(root, kind, lambda _model, channel: channel == "production", keep)

    def follow(self, *, whole: bool = False) -> Followed:
        world = self.world
        return follow(Origin(world.state, world.ledger, world.keys, lambda: world.now), self.target, whole=whole)

    def verify(self) -> Report:
        return verify(self.root, Keyring.load(self.world.state / "keyring.json"))

    def served(self) -> list[str]:
        """Follow, verify that all is well, and return the places that consumers are led to."""
        done = self.follow()
        assert done.problems == []
        report = self.verify()
        assert report.problems == ()
        return [one.place for one in report.verified if one.served]


class Bucketed:
    """A world and a place of objects that it exports to."""

    def __init__(self, world: World, remote: Remote, kind: Kind = "plain", keep: int = 2) -> None:
        self.world, self.remote = world, remote
        self.target = BucketTarget(remote, kind, lambda _model, channel: channel == "production", keep)

    def follow(self, *, whole: bool = False) -> Followed:
        world = self.world
        origin = Origin(world.state, world.ledger, world.keys, lambda: world.now)
        return follow(origin, self.target, whole=whole)

    def verify(self) -> Report:
        return examine(Shelf(self.remote), self.remote.where, Keyring.load(self.world.state / "keyring.json"))

    def served(self) -> list[str]:
        """Follow, verify that all is well, and return the places that consumers are led to."""
        done = self.follow()
        assert done.problems == []
        report = self.verify()
        assert report.problems == ()
        return [one.place for one in report.verified if one.served]

    def names(self) -> set[str]:
        """Return every key."""
        return {one.key for one in self.remote.listed("")}


def closed(path: Path, monkeypatch: pytest.MonkeyPatch, owner: int | None = None) -> None:
    """Make a directory that this process may not read, also as root; of ``owner``, else a stranger."""
    path.mkdir()
    scandir, lstat = os.scandir, Path.lstat

    def scanned(where: Any) -> Any:
        if where == path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(where)

    def status(where: Path) -> os.stat_result:
        found = list(lstat(where))
        if where == path:
            found[4] = os.geteuid() + 1 if owner is None else owner
        return os.stat_result(found)

    monkeypatch.setattr(os, "scandir", scanned)
    monkeypatch.setattr(Path, "lstat", status)


def tree(root: Path) -> dict[str, bytes]:
    """Return path to content of every file below a directory; a link's content is where it leads."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink()).encode()
        elif path.is_file():
            found[name] = path.read_bytes()
    return found
