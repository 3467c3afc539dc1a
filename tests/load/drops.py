"""What is dropped under load: mixed bundles of many teams, and drops that are not whole when they appear.

Half of all drops are one team's, which has every bundle of the hostile catalogue among its own; the rest is shared
by the others. Three families exist only here, since no rename brings them in whole:

- ``copied``: written file by file under its last name, as ``cp -r`` does, one file after each other drop;
- ``changing``: renamed in whole, but a descriptor of its model stays open, and another model is written over it
  and back as long as the file has a name;
- ``part``: a name that says that it is unfinished, for ever. It is no drop, and nobody may touch it.

What the first two come to depends on the moment, so any verdict is right but one: ``accepted`` for other bytes
than those that the bundle was meant to have. Their manifest locks its files: without a lock, one that is copied so
slowly that it settles between two files is the bundle of those that were there, and may be a good one.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import random
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from acceptd.intake.target import bundle_digest
from acceptd.sealed_facts import BundleFile
from examples import evidence_classifier as classifier
from examples.evidence_classifier import Variant
from tests.fleet.mixed import Piece, mixed

FLOOD: Final = "mosaic"
"""The team that floods: every second drop is its own, and every hostile one of the catalogue."""
LONE: Final = "lone"
"""The team that drops one bundle at a time, while the others' drops wait."""
UNSURE: Final = frozenset({"accepted", "rejected", "held", "inconclusive"})
UNWHOLE: Final = ("copied", "changing")
ONE_UNWHOLE_IN: Final = 25
ONE_LONE_IN: Final = 50
ONE_PART_IN: Final = 200
_SETS: Final = 3
_RESTLESS_SECONDS: Final = 0.002


def teams(count: int) -> list[str]:
    """Return the names of ``count`` teams: the one that floods, the one that drops one at a time, and others."""
    return [FLOOD, LONE, *(f"team-{number:02d}" for number in range(2, count))]


def drops(count: int, seed: int, names: Sequence[str]) -> list[Piece]:
    """Return ``count`` drops in the order in which they come; the same ones for the same seed."""
    chance = random.Random(seed)
    others = [name for name in names if name not in (FLOOD, LONE)]
    lone = [_lone(number) for number in range(max(1, count // ONE_LONE_IN))]
    unwhole = [
        _unwhole(UNWHOLE[number % 2], number, chance.choice(others), chance)
        for number in range(max(2, count // ONE_UNWHOLE_IN))
    ]
    weighted = [FLOOD] * (len(others) + 1) + others
    rest = mixed(count - len(lone) - len(unwhole), seed, teams=weighted, one_heavy_in=200)
    # Two versions of one model keep their order; whatever else is judged depends on no other.
    first, later = rest[0], [*rest[1:], *unwhole]
    chance.shuffle(later)
    for place, piece in enumerate(lone):
        later.insert((place + 1) * len(later) // (len(lone) + 1), piece)
    return [first, *later]


def _classifier(path: Path, model: str, variant: Variant, *, locked: bool = False) -> Path:
    return classifier.write_bundle(
        path, version="1.0.0", variant=variant, model_id=model, sets=_SETS, locked=locked
    )


def _lone(number: int) -> Piece:
    model = f"{LONE}/model-{number:04d}"
    return Piece(
        f"lone-{number:04d}", LONE, 0, "lone", lambda path: _classifier(path, model, Variant()),
        frozenset({"accepted"}), model,
    )  # fmt: skip


def _unwhole(family: str, number: int, team: str, chance: random.Random) -> Piece:
    model = f"{team}/{family}-{number:04d}"
    bias = tuple(round(one + chance.uniform(-0.2, 0.2), 3) for one in classifier.BIAS)
    return Piece(
        f"{number:04d}-{family}", team, 0, family,
        lambda path: _classifier(path, model, Variant(bias=bias), locked=True), UNSURE, model,
    )  # fmt: skip


def digest(path: Path) -> str:
    """Return the bundle digest of a directory as it lies there."""
    return bundle_digest(
        BundleFile(
            path=file.relative_to(path).as_posix(),
            sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
            size=file.stat().st_size,
        )
        for file in path.rglob("*")
        if file.is_file()
    )


@dataclass
class Boxes:
    """Brings drops into the inboxes, each as its family wants it, and as its team's own user where root may."""

    state: Path
    stage: Path
    uids: dict[str, int]
    """The user of each team; empty: everybody is who runs this."""
    whole: dict[str, str] = field(default_factory=dict)
    """The digest of what an unwhole drop was meant to be, by its name: no other may be accepted."""
    parts: list[Path] = field(default_factory=list)
    """Unfinished names that must stay as they are."""
    _copying: list[Iterator[None]] = field(default_factory=list)
    _restless: list[tuple[int, bytes, bytes]] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def drop(self, piece: Piece) -> None:
        """Bring a drop in; every ``copied`` one that is under way gets a file more."""
        self._copying = [one for one in self._copying if next(one, False) is None]
        made = piece.write(self.stage / piece.name)
        self._own(made, piece.team)
        if piece.family in UNWHOLE:
            self.whole[made.name] = digest(made)
        if piece.family == "copied":
            self._copying.append(self._copied(made, piece.team))
            next(self._copying[-1], None)
            return
        if piece.family == "changing":
            self._keep_changing(made / "model.onnx")
        made.rename(self.state / "inbox" / piece.team / made.name)

    def leave_part(self, number: int, team: str) -> None:
        """Leave something unfinished in an inbox."""
        made = _classifier(self.stage / f"{number:05d}.part", f"{team}/part-{number:05d}", Variant())
        (made / "model.onnx").write_bytes(b"")
        self._own(made, team)
        self.parts.append(self.state / "inbox" / team / made.name)
        made.rename(self.parts[-1])

    def settle(self) -> None:
        """Let everything that is being copied come to its end, and nothing change any more."""
        for one in self._copying:
            for _ in one:
                pass
        self._copying.clear()

    def close(self) -> None:
        """End the thread that keeps files changing."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        for fd, _, _ in self._restless:
            os.close(fd)
        self._restless.clear()

    def _own(self, made: Path, team: str) -> None:
        if team in self.uids:
            uid = self.uids[team]
            for path in [made, *(made.rglob("*") if made.is_dir() and not made.is_symlink() else ())]:
                os.chown(path, uid, uid, follow_symlinks=False)

    def _copied(self, made: Path, team: str) -> Iterator[None]:
        """Copy a bundle into its inbox, a file at a time: below one descriptor, whatever its name is by now."""
        target, uid = self.state / "inbox" / team / made.name, self.uids.get(team)
        with _as(uid):
            target.mkdir()
            try:
                fd = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:  # claimed already, empty as it is
                shutil.rmtree(made)
                return
        try:
            for file in sorted(path for path in made.rglob("*") if path.is_file()):
                with _as(uid):
                    _put(fd, file.relative_to(made), file.read_bytes())
                yield
        except OSError:
            return  # it was judged as it was, and is gone
        finally:
            os.close(fd)
            shutil.rmtree(made)

    def _keep_changing(self, model: Path) -> None:
        good = model.read_bytes()
        bad = classifier.build_model(Variant(bias=(2.0, 0.0, -2.0)))
        assert len(bad) == len(good)
        assert bad != good
        self._restless.append((os.open(model, os.O_RDWR), good, bad))
        if self._thread is None:
            self._thread = threading.Thread(target=self._change, name="restless", daemon=True)
            self._thread.start()

    def _change(self) -> None:
        turn = 0
        while not self._ended.wait(_RESTLESS_SECONDS):
            turn += 1
            for one in list(self._restless):
                if os.fstat(one[0]).st_nlink == 0:  # judged, and gone
                    self._restless.remove(one)
                    os.close(one[0])
                else:
                    os.pwrite(one[0], one[1] if turn % 2 == 0 else one[2], 0)


def _put(fd: int, name: Path, data: bytes) -> None:
    """Write a file below a directory; raise OSError where that is gone."""
    folder = name.parent.as_posix()
    if folder != ".":
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, dir_fd=fd)
    below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
    try:
        opened = os.open(name.name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=below)
    finally:
        os.close(below)
    with open(opened, "wb") as copy:
        copy.write(data)


@contextlib.contextmanager
def _as(uid: int | None) -> Iterator[None]:
    """Let this thread alone make files as another user; None: as who runs this."""
    if uid is None:
        yield
        return
    libc = ctypes.CDLL(None)
    libc.setfsgid(uid)
    libc.setfsuid(uid)
    try:
        yield
    finally:
        libc.setfsuid(os.geteuid())
        libc.setfsgid(os.getegid())
