"""Finds the release that a submission is compared with: its facts, from stored evidence that a key stands for.

The way is ledger → intent of the current release → the verdict that it names → the digest of the evidence in the
verdict's signed statement → the blob with that digest. Where any step fails the answer is ``unknown`` with
the reason, never a guess from something else.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from acceptd.declared import Declared, declared_by
from acceptd.errors import AcceptdError, ConfigError, LedgerError, LoaderError
from acceptd.evidence import Facts, Prior, Snapshot, Structure, Wire
from acceptd.policy.manifest import validate
from acceptd.prior import data_digest, placements_in, pruned, released_files
from acceptd.record.attest import statement_differences, verify_statement
from acceptd.record.keys import Keys
from acceptd.record.log import Ledger
from acceptd.release.book import Book, Row, read_book


def prior_release(ledger: Ledger, keyring: Keys, model_id: str, channel: str, digest: str) -> Prior:
    """Return the current release of ``model_id`` on ``channel`` for a submission of the bundle ``digest``."""
    try:
        book = read_book(ledger)
        row = book.current(model_id, channel)
    except AcceptdError as error:
        return Prior(status="unknown", channel=channel, reason=f"the ledger could not be read: {error}"[:1000])
    if row is None:
        return Prior(status="none", channel=channel, reason=f"{model_id} has no release on {channel} yet")
    head = _head(book, row)
    if row.digest == digest:
        return Prior(status="same", reason="this bundle is the current release", **head)
    return _facts(ledger, keyring, row, head, frozenset({"accepted", "held"}))[0]  # held: people approved it


def recorded(ledger: Ledger, keyring: Keys, row: Row) -> tuple[Prior, dict[str, Any]]:
    """Return what the record knows of the bundle of any release: its facts, and what its signed verdict says.

    The verdict need not have accepted it: people may have. Where it cannot be had, what it says is empty.
    """
    return _facts(ledger, keyring, row, _head(read_book(ledger), row), frozenset())


def _head(book: Book, row: Row) -> dict[str, Any]:
    return {
        "channel": row.channel,
        "number": row.number,
        "bundle_digest": row.digest,
        "revoked": row.digest in book.revoked,
        "verdict_seq": row.verdict_seq,
    }


def _facts(
    ledger: Ledger, keyring: Keys, row: Row, head: dict[str, Any], verdicts: frozenset[str]
) -> tuple[Prior, dict[str, Any]]:
    """Return the facts of a release, and its signed verdict, which must be one of ``verdicts`` (empty: any)."""
    said: dict[str, Any] = {}
    try:
        said = _signed_verdict(ledger, keyring, row, verdicts)
        head["version"] = str(said.get("version") or "")
        head["evidence_digest"] = str(said.get("evidence_digest") or "")
        document = _evidence(ledger, head["evidence_digest"])
        return Prior(status="found", models=_models(document), declared=_declared(document), **head), said
    except (AcceptdError, ValidationError, KeyError, TypeError, ValueError) as error:
        words = "stored facts of another form" if isinstance(error, ValidationError) else str(error)
        reason = f"release {row.number} of {row.model_id}: {words}"
        return Prior(status="unknown", reason=reason[:1000], **head), said


def _signed_verdict(ledger: Ledger, keyring: Keys, row: Row, verdicts: frozenset[str]) -> dict[str, Any]:
    """Return what the verdict behind a release says, as a ledger key signed it; raise AcceptdError otherwise."""
    entry = ledger.entry(row.verdict_seq)
    if entry.type != "verdict":
        raise LedgerError(f"ledger entry {entry.seq} is no verdict")
    try:
        statement = verify_statement(entry.body.get("statement"), keyring.at(entry.seq))
    except LoaderError as error:
        raise LedgerError(f"ledger entry {entry.seq} has no signed verdict: {error}") from error
    for difference in statement_differences(statement, entry.submission, entry.body, ledger.origin, entry.seq):
        raise LedgerError(f"ledger entry {entry.seq}: its statement {difference}")
    said = {**entry.body, **statement["predicate"]}
    if said.get("bundle_digest") != row.digest or (verdicts and said.get("verdict") not in verdicts):
        raise LedgerError(f"ledger entry {entry.seq} did not accept {row.digest}")
    return said


def _evidence(ledger: Ledger, evidence_digest: str) -> dict[str, Any]:
    blob = ledger.evidence(evidence_digest)
    if blob is None:
        raise LedgerError("its evidence is no longer kept")
    document: dict[str, Any] = json.loads(blob)
    return document  # a signed digest stands for these bytes: their form need not be proved again


def _declared(document: dict[str, Any]) -> Declared | None:
    """Return what the manifest of the evidence declares; None where today's schema does not know it as valid."""
    found = next((job["manifest"] for job in document["jobs"] if job["kind"] == "manifest"), None)
    try:
        return None if found is None else declared_by(validate(found))
    except ConfigError:
        return None


def _models(document: dict[str, Any]) -> list[Snapshot]:
    jobs = [job for job in document["jobs"] if job["kind"] in {"inspect", "manifest"}]
    declared: list[Any] = next((job["manifest"]["models"] for job in jobs if job["kind"] == "manifest"), [])
    files = {model["name"]: model["file"] for model in declared}
    listed = (document.get("sealed") or {}).get("files", [])
    sealed = {one["path"]: one["sha256"] for one in listed}
    sized = {one["path"]: (one["sha256"], one["size"]) for one in listed}
    found: dict[str, Snapshot] = {}
    for job in jobs:
        if job["kind"] != "inspect" or job["model"] not in files:
            continue  # an independent export: only what is released is compared
        if not all(job.get(key) for key in ("wire", "facts", "structure")):
            raise LedgerError(f"its evidence holds no structure of the model {job['model']!r:.80}")
        facts, file = Facts.model_validate(job["facts"]), files[job["model"]]
        found[job["model"]] = Snapshot(
            name=job["model"],
            file=file,
            bytes=Wire.model_validate(job["wire"]).bytes,
            facts=pruned(facts),
            structure=Structure.model_validate(job["structure"]),
            sha256=sealed.get(file, ""),
            data_sha256=data_digest(file, facts.external, facts.external_count, sealed),
            files=released_files(file, facts.external, facts.external_count, sized),
            placements=placements_in(document["jobs"], job["model"]),
        )
    if set(found) != set(files) or not found:
        raise LedgerError("its evidence does not hold the facts of every model")
    return [found[name] for name in sorted(found)]
