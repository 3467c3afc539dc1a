"""The steps of opening a release, in order: what is announced, then every byte. No runtime, no session.

Whoever only asks whether something changed (:mod:`acceptd.loader_watch`) stops after the announcement, which
hashes no model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from acceptd.errors import SignatureError
from acceptd.record.keyring import Keyring
from acceptd.release import held, memory, objects, proof, rotated, trust
from acceptd.release.content import Keep, but_vectors
from acceptd.release.identity import agreed, labels_of, preprocessing_of

if TYPE_CHECKING:
    from pathlib import Path

Mode = Literal["mapped", "memory"]
MODES: Final = ("mapped", "memory")
_TRIES: Final = 8
"""Looks at rotations.json: one that is another each time must not hold a loader for ever."""


class Announced(NamedTuple):
    """What the signed files say is current, verified; no byte of the bundle was looked at."""

    channel: trust.ChannelFacts
    revocations: trust.RevocationFacts
    release: trust.ReleaseFacts
    rotations: bytes | None
    """``rotations.json`` as it was read."""


class Opening(NamedTuple):
    """One question to a root: which release, by which keys, under which conditions."""

    base: str
    """The root, as an absolute path; also the memory's key, so no link in it is resolved."""
    model_id: str
    channel: str
    anchors: Keyring
    digest: str | None
    profile: str | None
    remembering: Path | None
    now: Callable[[], float]
    mode: Mode
    demand_checkpoint: bool

    @property
    def folder(self) -> str:
        """The channel's directory below the root."""
        return f"releases/{self.model_id}/{self.channel}"

    def announced(self) -> Announced:
        """Verify the signed files and remember what they say; raise a LoaderError as ``open_release`` does."""
        root_fd = objects.open_root(self.base)
        try:
            return self._announced(root_fd)
        finally:
            os.close(root_fd)

    def opened(self) -> dict[str, Any]:
        """Verify everything; return the members of an opened release."""
        root_fd = objects.open_root(self.base)
        try:
            found = self._announced(root_fd)
            released = found.release
            under = held.chosen(released, self.profile)
            ledger, lost = rotated.ledger_keys(found.rotations, self.anchors)
            known = _within(released, found.channel.release_digest, under, ledger, lost)
            proved = known.proof
            if self.demand_checkpoint and proved != proof.SIGNED:
                place = f"{self.model_id} number {released.number}"
                raise SignatureError(f"{place} carries no checkpoint that a ledger key of the keyring signed")
            keep = Keep(but_vectors(released.manifest)) if self.mode == "memory" else None
            stamps = objects.verify_object(root_fd, released.bundle_digest, released.files, keep)
        finally:
            os.close(root_fd)
        return {
            "base": self.base,
            "model_id": self.model_id,
            "channel": self.channel,
            "number": found.channel.number,
            "release_digest": found.channel.release_digest,
            "bundle_digest": released.bundle_digest,
            "files": released.files,
            "manifest": released.manifest,
            "options": under.options,
            "profile": under.profile,
            "profiles": under.names,
            "runtime": held.record(released, under),
            "preprocessing": preprocessing_of(released.manifest),
            "labels": None if known.labels is None else dict(known.labels),
            "expires_at": found.channel.expires_at,
            "revocations": found.revocations.number,
            "proof": proved,
            "mode": self.mode,
            "stamps": stamps,
            "contents": {} if keep is None else keep.found,
        }

    def _announced(self, root_fd: int) -> Announced:
        place = f"{self.model_id}:{self.channel}"
        known = memory.recall(self.base, place, self.remembering)

        def look(keyring: Keyring) -> tuple[trust.ChannelFacts, trust.RevocationFacts, trust.ReleaseFacts]:
            # channel.json before the list: a revocation writes the list first, so what is read second is no older.
            facts = trust.channel(
                objects.read_small(root_fd, f"{self.folder}/channel.json", trust.MAX_CHANNEL_BYTES),
                keyring, model_id=self.model_id, name=self.channel, now=self.now(), remembered=known,
            )  # fmt: skip
            listed = trust.revocations(
                objects.read_if_there(root_fd, "revocations.json", trust.MAX_REVOCATIONS_BYTES),
                keyring, least=facts.least_revocations, remembered=known.revocations,
            )  # fmt: skip
            name = f"{self.folder}/{trust.number_name(facts.number)}/release.json"
            return facts, listed, trust.release(
                objects.read_small(root_fd, name, trust.MAX_RELEASE_BYTES), keyring, facts
            )  # fmt: skip

        (facts, listed, released), told = self._by_todays_keys(root_fd, look)
        seen = trust.Remembered(facts.number, facts.release_digest, facts.sequence, listed.number)
        # Remembered as soon as it is verified, also where a later check refuses: what was seen was seen.
        memory.remember(self.base, place, seen, self.remembering)
        trust.not_revoked(released, listed)
        trust.demanded(released, self.digest)
        return Announced(facts, listed, released, told)

    def _by_todays_keys(
        self,
        root_fd: int,
        look: Callable[[Keyring], tuple[trust.ChannelFacts, trust.RevocationFacts, trust.ReleaseFacts]],
    ) -> tuple[tuple[trust.ChannelFacts, trust.RevocationFacts, trust.ReleaseFacts], bytes | None]:
        """Return what ``look`` finds by the keys that count now; once more where a rotation came between."""
        remembered = memory.recall_keys(self.base, self.remembering)
        told = objects.read_if_there(root_fd, rotated.FILE, rotated.MAX_BYTES)
        tries = _TRIES
        while True:
            keyring, followed = rotated.todays_keys(told, self.anchors, remembered)
            memory.remember_keys(self.base, followed, self.remembering)
            try:
                return look(keyring), told
            except SignatureError:
                before, told = told, objects.read_if_there(root_fd, rotated.FILE, rotated.MAX_BYTES)
                tries -= 1
                if told == before or not tries:
                    raise


class _Within(NamedTuple):
    """What a verified ``release.json`` says of itself, once it was found to agree."""

    proof: str
    labels: Mapping[str, str] | None


_KEPT: Final = 64
_found: dict[tuple[str, str, Keyring, Keyring], _Within] = {}


def _within(
    released: trust.ReleaseFacts, release_digest: str, under: held.Held, ledger: Keyring, lost: Keyring
) -> _Within:
    """Check what stands inside a verified ``release.json``: identities, runtime, proof.

    Nothing but its bytes and these keys decides that, so it is done once in a process (what raises is not kept).
    """
    asked = (release_digest, under.profile, ledger, lost)
    if (known := _found.get(asked)) is None:
        agreed(released.document, released.manifest)
        held.runtime(released, under)
        known = _Within(proof.verify(released, ledger, lost), labels_of(released.manifest))
        if len(_found) >= _KEPT:
            _found.clear()
        _found[asked] = known
    return known
