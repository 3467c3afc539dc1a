"""What a model signature that came with a bundle is worth under the policy. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from acceptd.evidence import Sealed, Submission
from acceptd.judge.finding import Finding
from acceptd.judge.inventory import SIGNATURE_FILE
from acceptd.judge.jobs import Jobs
from acceptd.judge.words import make
from acceptd.policy.manifest import Manifest
from acceptd.policy.model_signature import signer
from acceptd.policy.policy import Policy
from acceptd.policy.signatures import SignerTable


def present(sealed: Sealed | None) -> bool:
    """Say whether a model signature came with the bundle."""
    return sealed is not None and any(file.path == SIGNATURE_FILE for file in sealed.files)


def covered(sealed: Sealed) -> list[tuple[str, str]]:
    """Return what a signature has to cover: every file (path, SHA-256 in hex) but itself."""
    return [(file.path, file.sha256) for file in sealed.files if file.path != SIGNATURE_FILE]


def verified(policy: Policy, submission: Submission) -> SignerTable | None:
    """Return the signer of the policy whose signature over exactly these files came with the bundle, or None."""
    record = Jobs(tuple(submission.jobs)).last("signature")
    sealed = submission.sealed
    if record is None or record.signature is None or sealed is None or not present(sealed):
        return None
    return signer(record.signature, covered(sealed), policy.signatures.of(submission.team))


def findings(manifest: Manifest, policy: Policy, submission: Submission) -> Iterator[Finding]:
    """Yield what a model signature, or the want of one, is worth under the policy."""
    rules = policy.signatures
    if not present(submission.sealed):
        if rules.required:
            yield make("signature/missing", "manifest", SIGNATURE_FILE, "the bundle carries no model signature")
        return
    if any(SIGNATURE_FILE in model.files for model in manifest.models):
        message = "a [[models]] table names it: what it holds no signature covers"
        yield make("signature/invalid", "manifest", SIGNATURE_FILE, message)
        return
    if not rules.signers:
        yield make("signature/unchecked", "manifest", SIGNATURE_FILE, "the policy names no signer to verify it by")
        return
    found = verified(policy, submission)
    if found is not None:
        yield make("signature/verified", "manifest", SIGNATURE_FILE, f"by the key of {found.name}")
        return
    record = Jobs(tuple(submission.jobs)).last("signature")
    facts = record.signature if record is not None else None
    problem = facts.problem if facts is not None else "it could not be read"
    message = problem or "no signer of the policy signed exactly these files with it"
    yield make("signature/invalid", "manifest", SIGNATURE_FILE, message)
