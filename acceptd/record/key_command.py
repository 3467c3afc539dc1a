"""A private key behind a command: an agent, an HSM, a token. Its bytes are never in acceptd's memory or state.

``COMMAND... sign ROLE KEY_ID`` gets the bytes to sign on its standard input and answers with the raw 64 bytes of
the Ed25519 signature (RFC 8032, PureEdDSA: the message itself is signed, not a digest of it) on its standard
output, and ends with 0. It is run without a shell, on a leash (:mod:`acceptd.leash`): it ends, with all that it
started, when its time is over and when acceptd is killed. What it answers is verified with the public key that we
know before it is used.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from acceptd import leash
from acceptd.errors import SigningError
from acceptd.policy.trusted import check_program
from acceptd.record.keys import PublicKey, Signer

SECONDS: Final = 10.0
SIGNATURE_BYTES: Final = 64
_MOST_OUTPUT: Final = 16 << 20
"""A command that writes on and on would fill the host's memory until its time is over."""
_LOOK_SECONDS: Final = 0.02
PROBE: Final = b"acceptd key probe v1\n"
"""What is signed to see that a command answers: no document of ours begins so."""


@dataclass(frozen=True, slots=True)
class KeyCommand:
    """A program of the operator that signs with one private key. Safe from threads: each call is a process."""

    program: tuple[str, ...]
    seconds: float
    key: PublicKey

    @classmethod
    def of(cls, program: Sequence[str], seconds: float, key: PublicKey) -> KeyCommand:
        """Return the command for ``key``; raise ConfigError where a stranger could write it, or it is none."""
        words = tuple(program)
        check_program(f"keys.{key.role}.command", Path(words[0]))
        return cls(words, seconds, key)

    def signer(self) -> Signer:
        """Return the signer that asks this command."""
        return Signer(self.key.role, self.key.key_id, self.key.raw, self.sign)

    def sign(self, data: bytes) -> bytes:
        """Return the command's signature of ``data``; raise SigningError where it gives none that holds."""
        answer = self._ask(data)
        try:
            Ed25519PublicKey.from_public_bytes(self.key.raw).verify(answer, data)
        except InvalidSignature as error:
            raise self._failed(f"its answer of {len(answer)} bytes is no signature by this key") from error
        return answer

    def _ask(self, data: bytes) -> bytes:
        # Files in memory and no pipes: a grandchild that keeps a pipe open could hold us beyond the time limit.
        with _memory("acceptd-sign-in") as given, _memory("acceptd-sign-out") as out, _memory("said") as said:
            given.write(data)
            given.flush()
            given.seek(0)
            command = [*self.program, "sign", self.key.role, self.key.key_id]
            try:
                process = subprocess.Popen(
                    leash.command(command), stdin=given, stdout=out, stderr=said, start_new_session=True
                )
            except OSError as error:
                raise self._failed(str(error.strerror)) from error
            try:
                code = self._ended(process, (out, said))
            finally:
                process.terminate()  # no more than that: its leash kills the rest
                process.wait()
            if code != 0:
                raise self._failed(f"it ended with {code}: {_last_line(said)}")
            out.seek(0)
            return out.read(SIGNATURE_BYTES + 1)

    def _ended(self, process: subprocess.Popen[bytes], written: Sequence[BinaryIO]) -> int:
        """Return how the command ended; raise SigningError where it takes too long or floods memory."""
        due = time.monotonic() + self.seconds
        while True:
            try:
                return process.wait(min(_LOOK_SECONDS, max(0.0, due - time.monotonic())))
            except subprocess.TimeoutExpired:
                if any(os.fstat(file.fileno()).st_size > _MOST_OUTPUT for file in written):
                    raise self._failed(f"it wrote more than {_MOST_OUTPUT >> 20} MiB") from None
                if time.monotonic() >= due:
                    raise self._failed(f"it gave no answer within {self.seconds:g} s") from None

    def _failed(self, why: str) -> SigningError:
        role = self.key.role
        return SigningError(
            f"keys.{role}.command {self.program[0]}: no signature by the {role} key {self.key.key_id[:16]}: {why}",
            remedy="mend the command or start its agent; what waits for the signature is tried again",
        )


def _memory(name: str) -> BinaryIO:
    return open(os.memfd_create(name), "w+b")


def _last_line(said: BinaryIO) -> str:
    said.seek(0)
    lines = said.read(16 << 10).decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:200] if lines else "no word why"
