"""Receipts: what was run on what, by digests alone; never a value."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from acceptd.release.opened import Verified


@dataclass(frozen=True, slots=True)
class Receipt:
    """One inference. ``inputs`` and ``outputs`` map names to tensor digests."""

    request_id: str
    at: str
    model_id: str
    model: str
    channel: str
    number: int
    release_digest: str
    bundle_digest: str
    runtime_identity: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]

    @property
    def digest(self) -> str:
        """SHA-256 of the receipt's canonical JSON (all members are text or small integers)."""
        text = json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def make_receipt(
    release: Verified,
    *,
    model: str,
    runtime_identity: str,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    request_id: str | None = None,
) -> Receipt:
    """Return a receipt of one run; without a ``request_id`` a random one of 128 bits is made."""
    return Receipt(
        request_id=secrets.token_hex(16) if request_id is None else request_id,
        at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        model_id=release.model_id,
        model=model,
        channel=release.channel,
        number=release.number,
        release_digest=release.release_digest,
        bundle_digest=release.bundle_digest,
        runtime_identity=runtime_identity,
        inputs=dict(inputs),
        outputs=dict(outputs),
    )


def tensor_digest(dtype: str, shape: Sequence[int], data: bytes | Sequence[bytes]) -> str:
    """Return SHA-256 over dtype, shape and the little-endian C-order bytes; text elements are length-prefixed."""
    digest = hashlib.sha256(f"{dtype} {list(shape)}\n".encode())
    if isinstance(data, bytes):
        digest.update(data)
    else:
        for item in data:
            digest.update(len(item).to_bytes(8, "little") + item)
    return digest.hexdigest()
