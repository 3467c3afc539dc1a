"""What holds of releases after every crash, found out by other means than acceptd's own: the one list of promises.

:meth:`Promises.standing` holds at any moment, also before a restart; :meth:`Promises.in_line` after one. Ledger,
link, signed documents and bytes are read here with sqlite3, json, hashlib and cryptography alone; acceptd itself
is asked only as a loader and as an auditor would ask it. What was seen once is remembered outside the state
directory, and every signature that was ever made is in a file beside it, also one that nobody came to see.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from acceptd.errors import LoaderError, ReleaseNotFoundError, RevokedError
from acceptd.loader import open_release
from acceptd.record import audit
from acceptd.record.keys import Signer, load_keyring
from acceptd.record.keystore import history
from acceptd.record.log import Ledger
from acceptd.release import audit as release_audit
from acceptd.release import memory
from acceptd.release.signers import Auditor
from acceptd.retention import audit as retention_audit

SIGNED: Final = "signed.jsonl"
SEEN: Final = "seen.json"
Place = tuple[str, str]
"""Model id and channel."""


class Broken(AssertionError):
    """A promise that does not hold."""


def demand(holds: object, what: str) -> None:
    """Raise Broken with the words unless it holds."""
    if not holds:
        raise Broken(what)


@contextlib.contextmanager
def recording(beside: Path) -> Iterator[None]:
    """Keep in ``beside`` every payload that this process and its children sign, before anybody gets it."""
    given = Signer.sign

    def sign(self: Signer, data: bytes) -> bytes:
        made = given(self, data)
        if data.startswith(b"DSSEv1 "):
            line = json.dumps([self.role, base64.b64encode(data).decode()]).encode() + b"\n"
            fd = os.open(beside / SIGNED, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, line)
            finally:
                os.close(fd)
        return made

    Signer.sign = sign  # type: ignore[method-assign]
    try:
        yield
    finally:
        Signer.sign = given  # type: ignore[method-assign]


def _digest_of(folder: Path) -> str:
    """Return the bundle digest of a directory (names in ASCII)."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    rows = [
        {"path": one.relative_to(folder).as_posix(), "sha256": hashlib.sha256(one.read_bytes()).hexdigest(),
         "size": one.stat().st_size} for one in files
    ]  # fmt: skip
    text = json.dumps(sorted(rows, key=lambda row: str(row["path"])), separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Told:
    """What the entries of a ledger tell, folded here."""

    size: int = 0
    head: str = ""
    """Leaf hash of the last entry, in hex."""
    intents: dict[Place, dict[int, str]] = field(default_factory=dict)
    """Each channel's numbers with their bundle digests, in the order in which they were taken."""
    order: dict[Place, list[int]] = field(default_factory=dict)
    active: dict[Place, dict[str, Any]] = field(default_factory=dict)
    activated: dict[Place, dict[int, str]] = field(default_factory=dict)
    """Numbers that became current, with the digests of their ``release.json``."""
    abandoned: dict[Place, set[int]] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    accepted: dict[str, str] = field(default_factory=dict)
    """Bundle digest to the submission that was accepted with it, last."""
    removed: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, state: Path) -> Told:
        """Read the entries of a state directory."""
        told = cls()
        with contextlib.closing(sqlite3.connect(f"file:{state}/ledger.sqlite3", uri=True, timeout=60)) as database:
            for seq, leaf, leaf_hash in database.execute("SELECT seq, leaf, leaf_hash FROM entries ORDER BY seq"):
                demand(seq == told.size, f"the ledger has no entry {told.size}")
                demand(hashlib.sha256(b"\0" + leaf).digest() == leaf_hash, f"entry {seq} is not its hash")
                told.size, told.head = seq + 1, leaf_hash.hex()
                entry = json.loads(leaf)
                told.add(entry["type"], entry["body"], entry.get("submission", ""))
        return told

    def add(self, kind: str, body: dict[str, Any], submission: str) -> None:
        """Take up one entry."""
        if kind == "verdict" and body["verdict"] == "accepted":
            self.accepted[body["bundle_digest"]] = submission
            self.removed.discard(body["bundle_digest"])
        elif kind == "revoked":
            self.revoked.add(body["digest"])
        elif kind == "removed":
            self.removed |= {item["name"] for item in body["items"]}
        if kind not in {"intent", "activated", "abandoned"}:
            return
        place, number = (body["model"], body["channel"]), body["number"]
        if kind == "intent":
            numbers = self.order.setdefault(place, [])
            demand(not numbers or number > numbers[-1], f"{place}: number {number} was taken after {numbers[-1:]}")
            numbers.append(number)
            self.intents.setdefault(place, {})[number] = body["digest"]
        elif kind == "activated":
            demand(self.intents[place][number] == body["digest"], f"{place}: {number} became another bundle")
            before = self.active.get(place)
            demand(before is None or number > before["number"], f"{place}: number {number} followed {before}")
            self.active[place] = body
            self.activated.setdefault(place, {})[number] = body["release_digest"]
        else:
            demand(number not in self.activated.get(place, {}), f"{place}: {number} was current, and is burnt")
            self.abandoned.setdefault(place, set()).add(number)


@dataclass
class Promises:
    """The promises about one state directory; ``beside`` is a directory outside it that survives everything."""

    state: Path
    beside: Path
    now: float | None = None
    """The loaders' clock where tests turn it: seconds since the epoch."""

    def standing(self) -> int:
        """Check what holds at any moment: whatever can be opened is whole, signed, and not older than before.

        Returns how many channels were opened. Raises Broken.
        """
        memory.forget()  # what a process remembers died with it; the state file did not
        opened = 0
        for place, folder in self._channels():
            link = self._link(folder)
            if link is not None:
                self._whole(folder / link, place)
            with contextlib.suppress(ReleaseNotFoundError, RevokedError):
                opened += self._open(place) is not None
            if (folder / "channel.json").exists():
                said = self.document(folder / "channel.json", "release")
                released = self._whole(folder / f"{said['number']:06d}", place)
                demand(said["release_digest"] == released[0], f"{place}: channel.json names another release.json")
        return opened

    def in_line(self, *, audited: bool = True) -> Told:
        """Check what holds after a restart; return what the ledger tells. Raises Broken."""
        self.standing()
        told = Told.of(self.state)
        self._extends(told)
        listed = self._revocations(told)
        for place, folder in self._channels():
            self._channel(place, folder, told, listed)
        for place in told.active:
            demand((self.state / "releases" / place[0] / place[1]).is_dir(), f"{place} has no directory")
        self._signatures(told)
        self._bytes(told)
        left = [os.path.join(at, one) for at, some, more in os.walk(self.state) for one in (*some, *more)
                if one.startswith(".tmp-")]  # fmt: skip
        demand(not left, f"temporary names are left: {left}")
        if audited:
            found = self.audit()
            demand(not found, f"`ledger verify`: {found}")
        return told

    def audit(self) -> list[str]:
        """Return what `acceptd ledger verify` finds of ledger, releases, store and retention."""
        with Ledger.open(self.state, create=False) as ledger:
            keys = Auditor.of(history(ledger, load_keyring(self.state)))
            found = [
                *audit.verify(self.state),
                *release_audit.examine(self.state, ledger, keys),
                *retention_audit.examine(self.state, ledger),
            ]
        return [f"{one.what} {one.where}: {one.message}" for one in found]

    # -- one channel

    def _channels(self) -> Iterator[tuple[Place, Path]]:
        for folder in sorted((self.state / "releases").glob("*/*/*")):
            yield (f"{folder.parents[1].name}/{folder.parent.name}", folder.name), folder

    def _link(self, folder: Path) -> str | None:
        try:
            return os.readlink(folder / "current")
        except FileNotFoundError:
            return None

    def _open(self, place: Place) -> int | None:
        more: dict[str, Any] = {} if self.now is None else {"now": lambda: self.now}
        try:
            found = open_release(
                self.state, *place, keys=self.state / "keyring.json", state_file=self.beside / SEEN, **more
            )
        except (ReleaseNotFoundError, RevokedError):
            raise
        except LoaderError as error:
            raise Broken(f"{place}: a loader is told {type(error).__name__}: {error}") from error
        return found.number

    def _whole(self, folder: Path, place: Place) -> tuple[str, dict[str, Any]]:
        """Check one number's directory; return the digest of its ``release.json``, and what that says."""
        said = self.document(folder / "release.json", "release")
        where = (said["model_id"], said["channel"], f"{said['number']:06d}")
        demand(where == (*place, folder.name), f"{folder} holds the release.json of {where}")
        target = folder / "bundle"
        demand(os.readlink(target).rpartition("/")[2] == said["bundle_digest"], f"{target} is another bundle's")
        there = sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if not path.is_dir())
        demand(there == sorted(row["path"] for row in said["files"]), f"{target} holds {there}")
        for row in said["files"]:
            data = (target / row["path"]).read_bytes()
            demand(hashlib.sha256(data).hexdigest() == row["sha256"], f"{target / row['path']} has other bytes")
        return hashlib.sha256((folder / "release.json").read_bytes()).hexdigest(), said

    def _channel(self, place: Place, folder: Path, told: Told, listed: int) -> None:
        row = told.active.get(place)
        there = sorted(int(path.name) for path in folder.glob("[0-9]*"))
        demand(there == sorted(told.activated.get(place, {})), f"{place}: the directories {there} lie there")
        settled = set(told.activated.get(place, {})) | told.abandoned.get(place, set())
        demand(settled == set(told.intents.get(place, {})), f"{place}: a number is neither current nor burnt")
        if row is None:
            demand(self._link(folder) is None, f"{place}: `current` points at a number that was never current")
            demand(not (folder / "channel.json").exists(), f"{place}: channel.json announces what is not current")
            return
        demand(self._link(folder) == f"{row['number']:06d}", f"{place}: `current` is not {row['number']}")
        digest, said = self._whole(folder / f"{row['number']:06d}", place)
        demand(digest == row["release_digest"], f"{place}: release.json is not the ledger's")
        demand(said["bundle_digest"] == row["digest"], f"{place}: release.json names another bundle")
        channel = self.document(folder / "channel.json", "release")
        due = (*place, row["number"], row["release_digest"])
        names = ("model_id", "channel", "number", "release_digest")
        demand(tuple(channel[name] for name in names) == due, f"{place}: channel.json is not the ledger's")
        demand(channel["least_revocations"] <= listed, f"{place}: asks for a revocation list that is not there")
        try:
            number = self._open(place)
        except RevokedError:
            demand(row["digest"] in told.revoked, f"{place}: refused as revoked, and is not")
        except ReleaseNotFoundError as error:
            raise Broken(f"{place}: missing for a loader: {error}") from error
        else:
            demand(row["digest"] not in told.revoked, f"{place}: opened although it is revoked")
            demand(number == row["number"], f"{place}: a loader opened {number}, not {row['number']}")
        self._rises(place, channel)

    def _rises(self, place: Place, channel: dict[str, Any]) -> None:
        """Compare with what was announced before, which is remembered beside the state."""
        with self._remembered() as known:
            before = known.get(":".join(place), [0, "", 0])
            if channel["number"] == before[0]:
                demand(channel["release_digest"] == before[1], f"{place}: number {before[0]} came twice")
            demand(channel["number"] >= before[0], f"{place}: numbers fell from {before[0]}")
            demand(channel["sequence"] >= before[2], f"{place}: sequences fell from {before[2]}")
            known[":".join(place)] = [channel["number"], channel["release_digest"], channel["sequence"]]

    @contextlib.contextmanager
    def _remembered(self) -> Iterator[dict[str, Any]]:
        path = self.beside / "promises.json"
        known = json.loads(path.read_bytes()) if path.exists() else {}
        yield known
        path.write_text(json.dumps(known))

    # -- the whole state

    def _extends(self, told: Told) -> None:
        """Check that the ledger still holds all that it held at the last look."""
        with self._remembered() as known:
            size, head = known.get("ledger", [0, ""])
            demand(told.size >= size, f"the ledger had {size} entries and has {told.size}")
            if size:
                place = f"file:{self.state}/ledger.sqlite3"
                with contextlib.closing(sqlite3.connect(place, uri=True)) as database:
                    query = "SELECT leaf_hash FROM entries WHERE seq = ?"
                    found = database.execute(query, (size - 1,)).fetchone()[0]
                demand(found.hex() == head, f"entry {size - 1} was another")
            known["ledger"] = [told.size, told.head]

    def _revocations(self, told: Told) -> int:
        path = self.state / "revocations.json"
        if not path.exists():
            demand(not told.revoked, "there is no revocation list, and the ledger revoked")
            return 0
        said = self.document(path, "revocation")
        listed = {row["digest"] for row in said["revoked"]}
        demand(listed == told.revoked, f"the revocation list differs from the ledger: {listed ^ told.revoked}")
        with self._remembered() as known:
            demand(said["number"] >= known.get("revocations", 0), "the revocation list's number fell")
            known["revocations"] = said["number"]
        return int(said["number"])

    def _signatures(self, told: Told) -> None:
        """Check every document that was ever signed, published or not: a number stands for one release alone."""
        releases: dict[tuple[str, str, int], bytes] = {}
        announced: dict[tuple[str, str, int], str] = {}
        highest: dict[Place, int] = {}
        for payload in self._signed():
            if b'"release_digest"' not in payload and b'"bundle_digest"' not in payload:
                continue
            said = json.loads(payload)
            if "model_id" not in said or "number" not in said:
                continue
            place = (said["model_id"], said["channel"])
            key = (*place, said["number"])
            if "bundle_digest" in said:
                demand(releases.setdefault(key, payload) == payload, f"{key}: two releases were signed")
                demand(said["number"] >= highest.get(place, 0), f"{key}: signed after {highest.get(place)}")
                highest[place] = said["number"]
                taken = told.intents.get(place, {}).get(said["number"])
                demand(taken == said["bundle_digest"], f"{key}: signed, and the ledger took it for {taken}")
            else:
                demand(announced.setdefault(key, said["release_digest"]) == said["release_digest"],
                       f"{key}: two releases were announced")  # fmt: skip
        for place, numbers in told.activated.items():
            for number, digest in numbers.items():
                key = (*place, number)
                demand(announced.get(key, digest) == digest, f"{key}: another release was announced")

    def _signed(self) -> Iterator[bytes]:
        path = self.beside / SIGNED
        if path.exists():
            for line in path.read_bytes().splitlines():
                _, text = json.loads(line)
                yield base64.b64decode(text).split(b" ", 4)[4]

    def _bytes(self, told: Told) -> None:
        """Check that no bundle that was ever accepted is lost: unless its removal is on record, it is whole."""
        for digest, submission in told.accepted.items():
            path = self.state / "store" / "inventory" / f"{digest}.json"
            place = self.state / "store" / "sha256" / digest
            if digest in told.removed and not place.exists():
                continue
            if not place.exists():  # on its way to the store, or kept aside
                kept = [self.state / one / submission for one in ("sealed", "quarantine")]
                found = [_digest_of(one) for path in kept for one in (path / "bundle", path) if one.is_dir()]
                demand(digest in found, f"the accepted bundle {digest} is lost")
                continue
            data = path.read_bytes()
            demand(hashlib.sha256(data).hexdigest() == digest, f"the inventory of {digest} is not its own")
            for row in json.loads(data):
                found = hashlib.sha256((place / row["path"]).read_bytes()).hexdigest()
                demand(found == row["sha256"], f"{digest}: {row['path']} has other bytes")

    def document(self, path: Path, role: str) -> dict[str, Any]:
        """Return the payload of a signed file; raise Broken unless a key of ``role`` in the keyring signed it."""
        try:
            envelope = json.loads(path.read_bytes())
            payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"].encode()
            signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
        except (OSError, ValueError, KeyError) as error:
            raise Broken(f"{path} is not whole: {error}") from error
        for key in self._keys(role):
            for one in envelope["signatures"]:
                with contextlib.suppress(InvalidSignature):
                    key.verify(base64.b64decode(one["sig"]), signed)
                    value = json.loads(payload)
                    demand(isinstance(value, dict), f"{path} holds no object")
                    return dict(value)
        raise Broken(f"{path} is not signed by a {role} key")

    def _keys(self, role: str) -> list[Ed25519PublicKey]:
        """Return the keys of a role that the keyring names, or named at an earlier look."""
        named = [
            [one["role"], one["public"]] for one in json.loads((self.state / "keyring.json").read_bytes())["keys"]
        ]
        with self._remembered() as known:
            known["keys"] = [*named, *(one for one in known.get("keys", []) if one not in named)]
            keys = known["keys"]
        return [Ed25519PublicKey.from_public_bytes(base64.b64decode(raw)) for one, raw in keys if one == role]
