"""Writes one number's directory: the link to its bundle, and ``release.json``, which nobody changes any more."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from acceptd.errors import ReleaseError
from acceptd.intake.files import write_exclusive
from acceptd.record.failpoint import failpoint
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import heads, identity, trust
from acceptd.release.book import Row
from acceptd.release.layout import (
    BUNDLE_LINK,
    RELEASE_FILE,
    bundle_link_target,
    channel_path,
    make_directories,
    release_path,
)
from acceptd.release.model import (
    AcceptedRuntime,
    FileRow,
    LabelIdentity,
    PreprocessingIdentity,
    Prior,
    ReleaseDocument,
)
from acceptd.release.order import Order
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys, seal_document


def write_release(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    order: Order,
    row: Row,
    files: tuple[trust.File, ...],
    prior: Row | None,
    terms: Terms,
) -> tuple[str, dict[str, Any]]:
    """Write ``NNNNNN/`` with its link and ``release.json``, durably; return that file's digest and payload."""
    inclusion, note = heads.proved(state, ledger, keys, row.intent_seq)
    preprocessing, labels = identity.preprocessing_of(order.manifest), identity.labels_of(order.manifest)
    document = ReleaseDocument(
        model_id=order.model_id,
        channel=order.channel,
        number=row.number,
        kind=order.kind,
        reason=order.reason,
        released_at=channels.stamp(terms.clock()),
        bundle_digest=order.digest,
        files=[FileRow(path=file.path, sha256=file.sha256, size=file.size) for file in files],
        manifest=order.manifest,
        options=order.options,
        profiles=order.profiles,
        runtimes=list(order.runtimes) or _runtimes(ledger, order),
        preprocessing=None if preprocessing is None else PreprocessingIdentity(**preprocessing),
        labels=None if labels is None else LabelIdentity(**labels),
        verdict_seq=order.verdict_seq,
        decisions=list(order.decisions),
        prior=None if prior is None else Prior(
            number=prior.number, bundle_digest=prior.digest, release_digest=prior.release_digest
        ),
        inclusion=inclusion,
        checkpoint=note,
    )  # fmt: skip
    data = seal_document(document, trust.RELEASE_TYPE, keys.release, *keys.beside)
    if len(data) > trust.MAX_RELEASE_BYTES:
        raise ReleaseError(f"release.json would have {len(data)} bytes; {trust.MAX_RELEASE_BYTES} are allowed")
    make_directories(state, channel_path(order.model_id, order.channel))
    folder = state / release_path(order.model_id, order.channel, row.number)
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    failpoint(f"release.{order.kind}.begun")
    os.symlink(bundle_link_target(order.digest), folder / BUNDLE_LINK)
    failpoint(f"release.{order.kind}.linked")
    # Created, not replaced: a torn one is burnt with its number. Synchronises the folder and its link too;
    # the folder's own name becomes durable with the link `current` beside it, which comes next.
    write_exclusive(folder, RELEASE_FILE, data, 0o444)
    return trust.sha256(data), document.model_dump(mode="json", by_alias=True)


def _runtimes(ledger: Ledger, order: Order) -> list[AcceptedRuntime]:
    """Return what the evidence of the accepting verdict says of the runtimes, where it is still on record."""
    body = ledger.entry(order.verdict_seq).body
    return heads.runtimes_of(ledger, body.get("evidence_digest"), order.profiles)
