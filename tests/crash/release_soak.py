"""kill -9 at uniformly random moments, under load: every promise about releases, at each restart.

``python -m tests.crash.release_soak`` (make soak-release) does 500 kills. In each round a group of processes works
on one state directory as a daemon and commands beside it do: it submits, promotes, rolls back, revokes, signs
anew and collects, on several models and channels at once, while readers open what is current. Then all of the
group dies at once; now and then a restart itself is killed, a rotation of a key, or a reader too. What stands is
compared with :mod:`tests.release_promises` before and after a restart. A seed gives the same acts and moments; how
far the acts are at a moment depends on the machine.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from acceptd import key_rotation
from acceptd.errors import ReleaseError, StateError
from acceptd.evidence import Sealed
from acceptd.policy.policy import Policy
from acceptd.policy.reviewers import Reviewers
from acceptd.record import checkpoint, keystore
from acceptd.record.entry import NewEntry
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.release import channel as channels
from acceptd.release import memory, store
from acceptd.release.book import read_book
from acceptd.release.layout import store_lock
from acceptd.release.promote import rollback
from acceptd.release.reconcile import catch_up, reconcile
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys
from acceptd.retention.collect import collect, sweep
from acceptd.retention.look import Look
from acceptd.review.desk import Desk
from tests.release_promises import Promises, recording
from tests.release_readers import Looked, Place, Readers
from tests.release_world import Accepted, World, memory_directory
from tests.retention_world import DAYS
from tests.warm_database import warm_database

MODELS = ("mosaic/evidence-disposition", "mosaic/router", "tessera/gate")
PLACES: list[Place] = [(model, channel) for model in MODELS for channel in ("production", "canary")]
TERMS = Terms(valid_seconds=86_400)
KEEP_SECONDS = 3
"""What no channel needs any more is collected when it is so old: beside readers that hold it for milliseconds."""
LONGEST = 1.0
"""Seconds within which a kill comes, from when the first process of a group is at work."""


@dataclass
class Soaked:
    """What came of it."""

    seed: int
    kills: int = 0
    restarts_killed: int = 0
    rotations: int = 0
    entries: int = 0
    recorded: collections.Counter[str] = field(default_factory=collections.Counter)
    """Entries by type."""
    put_right: collections.Counter[str] = field(default_factory=collections.Counter)
    """What restarts found half done."""
    signatures: int = 0
    looked: Looked = field(default_factory=Looked)
    troubles: list[str] = field(default_factory=list)


class Worker(World):
    """One process, or one thread of one, that works on the state until it is killed."""

    def __init__(self, root: Path, chance: random.Random, number: int, ledger: Ledger | None = None) -> None:
        super().__init__(root)
        if ledger is not None:
            self.ledger.close()
            self.ledger = ledger
        self.terms = TERMS
        self.chance = chance
        self._count = number * 100_000  # names of drops and submissions are this worker's own

    # -- what is done, by chance

    def submit(self) -> None:
        """Take a bundle from the drop to promoted, as the daemon does: each state of it durable."""
        model, channel = self.chance.choice(PLACES)
        version = f"{self.chance.randrange(40)}.0.0"  # some are dropped again: the same bytes twice
        document = _manifest(model, version)
        path, sealed = self.sealed(_files(model, version))
        submission, queue = path.name, Queue(self.ledger)
        queue.add(submission, team=model.split("/")[0], name="drop", path="/p", kind="directory")
        queue.advance(
            submission, "sealed", bundle_digest=sealed.digest, model=model, sealed=sealed.model_dump(mode="json"),
            manifest=document, channel=channel,
        )  # fmt: skip
        body = self.verdict(sealed, document, submission, model_id=model)
        queue.advance(submission, "judged", entries=[NewEntry("verdict", body, submission)], verdict="accepted")
        self.go_on(submission)

    def go_on(self, submission: str) -> None:
        """Do what is left of a submission after its verdict; a daemon's start does so for each."""
        queue = Queue(self.ledger)
        row = queue.get(submission)
        assert row is not None
        if row.state in {"claimed", "sealed"}:  # judged by nobody: dropped again some day
            queue.advance(submission, "quarantined")
            return
        entry = next(self.ledger.entries(kind="verdict", submission=submission))
        sealed = Sealed.model_validate(row.data["sealed"])
        with store_lock(self.state, shared=True):
            if row.state == "judged":
                store.put(self.state, self.state / "sealed" / submission, sealed)
                try:
                    accepted = Accepted(sealed.digest, row.data["manifest"], entry.seq)
                    self.promote(accepted, model_id=str(row.model), channel=row.data["channel"])
                except ReleaseError as error:
                    _as_expected(error)
        queue.advance(submission, "done")

    def roll_back(self) -> None:
        """Go back on some channel: to the one before, or to any older bundle."""
        model, channel = self.chance.choice(PLACES)
        digest = None
        if self.chance.random() < 0.4:
            rows = read_book(self.ledger).rows(model, channel)
            digest = self.chance.choice(rows).digest if rows else None
        rollback(
            self.state, self.ledger, self.keys, model_id=model, channel=channel, reason="a soak", digest=digest,
            terms=self.terms,
        )  # fmt: skip

    def promote_again(self) -> None:
        """Promote a bundle that was accepted before, perhaps on another channel, perhaps the current one."""
        entry = self.chance.choice(list(self.ledger.entries(kind="verdict")))
        row = Queue(self.ledger).get(str(entry.submission))
        if row is not None and row.state == "done":
            accepted = Accepted(str(row.bundle_digest), row.data["manifest"], entry.seq)
            self.promote(accepted, model_id=str(row.model), channel=self.chance.choice(PLACES)[1])

    def revoke_some(self) -> None:
        """Revoke what is current somewhere, more often than not with a rollback."""
        row = read_book(self.ledger).current(*self.chance.choice(PLACES))
        if row is not None:
            self.revoke(row.digest, rollback=self.chance.random() < 0.7)

    def refresh(self) -> None:
        """Do a daemon's housekeeping: finish, sign anew, seal the log."""
        catch_up(self.state, self.ledger, self.keys, terms=self.terms)
        channels.refresh(self.state, self.ledger, self.keys, valid_seconds=86_400, force=True)
        signer = keystore.open_signer(self.state, "ledger")
        checkpoint.write(self.state, self.ledger, signer, keystore.own_history(self.state, self.ledger))

    def collect_some(self) -> None:
        """Remove what has had its time, which has passed soon here."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 10 * 86_400 - KEEP_SECONDS))
        desk = Desk(self.state, self.ledger, Policy(), Reviewers(reviewers=[]))
        collect(Look(self.state, self.ledger, desk, now), DAYS)

    def work(self, acts: list[Callable[[], None]]) -> None:
        """Do one after another by chance, without end; an error that nobody expects ends it."""
        while True:
            try:
                self.chance.choice(acts)()
            except (ReleaseError, StateError) as error:
                _as_expected(error)


EXPECTED = (
    "is revoked", "has no older release", "was never a release", "has no release on", "were removed on",
    "another run removes things now",
)  # fmt: skip
"""Refusals that a random act earns."""


def _as_expected(error: Exception) -> None:
    if not any(words in str(error) for words in EXPECTED):
        raise error


def _manifest(model: str, version: str) -> dict[str, object]:
    return {
        "schema": 1,
        "bundle": {"id": model, "version": version},
        "models": [{"name": "main", "file": "model.onnx", "inputs": [], "outputs": []}],
    }


def _files(model: str, version: str) -> dict[str, bytes]:
    return {"model.onnx": f"{model} {version} ".encode() * 3000, "data/labels.txt": version.encode()}


class Soak:
    """One state directory after another, each killed so many times."""

    def __init__(self, seed: int, home: Path | None, told: Callable[[str], None]) -> None:
        self.soaked = Soaked(seed)
        self._chance = random.Random(seed)
        self._home, self._told = home, told

    def world(self, kills: int) -> None:
        """Kill one world so many times. What went wrong is in ``soaked.troubles``, and its directory stays."""
        root = memory_directory() if self._home is None else Path(tempfile.mkdtemp(dir=self._home))
        with recording(root):
            world = Worker(root, self._chance, 0)
            for model, channel in PLACES:
                accepted = world.accepted("0.0.0", manifest=_manifest(model, "0.0.0"),
                                          files=_files(model, "0.0.0"), model_id=model)  # fmt: skip
                world.promote(accepted, model_id=model, channel=channel)
            world.close()
        readers = Readers(root / "state", root, PLACES, 4, rest=0.02)
        try:
            for _ in range(kills):
                self._round(root, readers)
                if self.soaked.troubles:
                    break
        finally:
            found = readers.stop()
        self.soaked.looked.add(found.__dict__)
        self._count(root)
        if self.soaked.troubles or self.soaked.looked.wrong:
            self._told(f"what is left of it lies in {root}")
        else:
            shutil.rmtree(root)

    def _round(self, root: Path, readers: Readers) -> None:
        number = self.soaked.kills = self.soaked.kills + 1
        chance = random.Random(self._chance.random())
        rotate = chance.random() < 0.1
        self.soaked.rotations += rotate
        _kill(lambda tell: _instance(root, chance, number, rotate, tell), chance.uniform(0.0, LONGEST))
        if chance.random() < 0.1:
            readers.kill_one(chance.randrange(4))
        try:
            promises = Promises(root / "state", root)
            promises.standing()
            while chance.random() < 0.25:
                self.soaked.restarts_killed += 1
                _kill(lambda tell: _noted(root, lambda: _begun(root, tell)), chance.uniform(0.0, 0.15))
                promises.standing()
            self.soaked.put_right.update(_restart(root))
            promises.in_line()
            again = _restart(root)
            assert again == [], f"a second restart did {again}"
        except Exception:
            self.soaked.troubles.append(f"kill {number}: {traceback.format_exc(limit=6)}")
        noted = root / "troubles.txt"
        if noted.exists():
            self.soaked.troubles.append(f"kill {number}: {noted.read_text()}")

    def _count(self, root: Path) -> None:
        with Ledger.open(root / "state", create=False) as ledger:
            for entry in ledger.entries():
                self.soaked.entries += 1
                self.soaked.recorded[entry.type] += 1
        self.soaked.signatures += (root / "signed.jsonl").read_bytes().count(b"\n")


def _kill(work: Callable[[int], None], seconds: float) -> None:
    """Do ``work`` in a group of processes of its own, and kill all of it so long after it has begun."""
    told, tell = os.pipe()  # a byte says that they work; its end is read when the last of them is dead
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(told)
        work(tell)
        os._exit(0)
    os.close(tell)
    os.read(told, 1)
    time.sleep(seconds)
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(pid, signal.SIGKILL)  # before it had a group
    os.waitpid(pid, 0)
    while os.read(told, 1):
        pass
    os.close(told)


def _noted(root: Path, work: Callable[[], object]) -> None:
    """Do ``work``; what goes wrong is written down, for the round to find."""
    try:
        work()
    except BaseException:
        with (root / "troubles.txt").open("a") as file:
            file.write(traceback.format_exc())


def _begun(root: Path, tell: int) -> None:
    os.write(tell, b".")
    _restart(root)


def _restart(root: Path) -> list[str]:
    """Do what a daemon does before it takes drops; return what was found half done, in words without names."""
    memory.forget()
    state = root / "state"
    with recording(root), Ledger.open(state, create=False) as ledger:
        done = ["a rotation was finished, or taken back" for _ in key_rotation.resume(state, ledger, TERMS)]
        keys = ReleaseKeys.load(state, ledger)
        found = reconcile(state, ledger, keys, terms=TERMS)
        assert found.problems == (), found.problems
        assert sweep(state) == []
        for row in Queue(ledger).pending():
            done.append(f"a submission was {row.state}")
            worker = Worker(root, random.Random(0), 0, ledger)
            worker.go_on(row.id)
        shutil.rmtree(state / "sealed", ignore_errors=True)
    return [*done, *("".join(c for c in line.rpartition(": ")[2] if not c.isdigit()) for line in found.done)]


def _instance(root: Path, chance: random.Random, number: int, rotate: bool, tell: int) -> None:
    """Be a daemon and three commands beside it, in this process and in three more, until all are killed."""
    with recording(root):
        if rotate:
            os.write(tell, b".")
            _noted(root, lambda: _rotate(root, chance.choice(("release", "revocation", "ledger"))))
        seeds = [chance.random() for _ in range(6)]

        def command(index: int) -> None:
            worker = Worker(root, random.Random(seeds[index]), number * 10 + index)
            os.write(tell, b".")
            worker.work([
                [worker.roll_back, worker.promote_again, worker.submit],
                [worker.revoke_some, worker.submit, worker.submit, worker.roll_back, worker.roll_back],
                [worker.collect_some, worker.promote_again],
            ][index])  # fmt: skip

        for index in range(3):
            if os.fork() == 0:
                _noted(root, lambda index=index: command(index))  # type: ignore[misc]
                os._exit(0)
        ledger = Ledger.open(root / "state", create=False)

        def thread(index: int) -> None:
            worker = Worker(root, random.Random(seeds[index]), number * 10 + index, ledger)
            worker.work([worker.submit] if index < 5 else [worker.refresh, worker.submit])

        for index in (3, 4, 5):
            threading.Thread(target=_noted, args=(root, lambda index=index: thread(index))).start()
        time.sleep(60)


def _rotate(root: Path, role: str) -> None:
    with Ledger.open(root / "state", create=False) as ledger:
        key_rotation.rotate(root / "state", ledger, role, reason="age", terms=TERMS)


def soak(kills: int, seed: int, each: int = 25, home: Path | None = None, *, progress: bool = False) -> Soaked:
    """Kill so many times, with a fresh state after each ``each``; return what came of it."""

    def told(text: str) -> None:
        if progress:
            print(text, file=sys.stderr, flush=True)

    running = Soak(seed, home, told)
    soaked = running.soaked
    with warm_database():
        while soaked.kills < kills and not soaked.troubles:
            running.world(min(each, kills - soaked.kills))
            told(f"{soaked.kills} of {kills} kills, {soaked.entries} entries, {soaked.looked.opened} times opened")
    return soaked


def main() -> int:
    """Soak and print the figures; 1 where a promise did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="0: a new one, which is printed")
    parser.add_argument("--each", type=int, default=25, help="kills of one state directory")
    parser.add_argument("--directory", type=Path, help="make the states here, not in memory")
    chosen = parser.parse_args()
    seed = chosen.seed or random.SystemRandom().randrange(1, 1 << 31)
    print(f"seed {seed}", file=sys.stderr, flush=True)
    began = time.monotonic()
    soaked = soak(chosen.kills, seed, chosen.each, chosen.directory, progress=True)
    for trouble in soaked.troubles:
        print(trouble, file=sys.stderr)
    figures = {**soaked.__dict__, "looked": {**soaked.looked.__dict__, "words": soaked.looked.words[:20]}}
    print(json.dumps({**figures, "seconds": round(time.monotonic() - began, 1)}, indent=2))
    return int(bool(soaked.troubles) or soaked.looked.wrong > 0 or soaked.kills < chosen.kills)


if __name__ == "__main__":
    sys.exit(main())
