"""From an outcome to what is recorded of it: evidence, signed statement, ledger entry, report."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from acceptd import __version__
from acceptd.acceptance import Outcome
from acceptd.errors import InternalError
from acceptd.policy.policy import Policy
from acceptd.record.attest import VERDICT_TYPE, bound, sign_statement, statement, verdict_subjects
from acceptd.record.canonical import Written, document_digest, plain, plain_bytes
from acceptd.record.keys import Signer
from acceptd.release.model import ReleasedProfile, SessionOptions
from acceptd.report.declared import declared
from acceptd.report.document import brief, document, for_team
from acceptd.report.escape import printable_data
from acceptd.report.profiles import profile_rows
from acceptd.rules import Rules
from acceptd.statement.told import sections


@dataclass(frozen=True, slots=True)
class Prepared:
    """What one verdict writes: the entry's body, evidence blobs by content, and the reviewer's report."""

    blobs: tuple[bytes, ...]
    document: dict[str, Any]
    written: Written
    """The report's canonical bytes, which the entry's digest is of."""
    _body: dict[str, Any]
    _said: dict[str, Any]
    _subjects: tuple[tuple[str, str], ...]
    _signer: Signer

    def body(self, log: str, number: int) -> dict[str, Any]:
        """Return the body of the entry ``number`` of the log, its statement signed for that place and no other.

        Raises InternalError where the statement would not be what its schema says: then nothing is signed.
        """
        # Late: a check without a ledger signs nothing, and need not build these models.
        from acceptd.statement.schemas import trouble
        from acceptd.statement.verdict import VerdictPredicate

        said = {**self._said, "entry": {"log": log, "number": number}}
        if found := trouble(VerdictPredicate, said):
            raise InternalError(f"the statement of submission {said['submission']}: {found}")
        signed = sign_statement(statement(self._subjects, said, VERDICT_TYPE), self._signer)
        return {**self._body, "statement": signed}


def entry_body(
    team: str, name: str, rules: Rules, outcome: Outcome, signer: Signer, ledger: str, uid: int | None = None
) -> Prepared:
    """Return everything that one verdict puts on record. ``ledger`` says whether it is anchored now.

    ``uid`` is the drop's kernel uid: who dropped a bundle does not decide about it.

    The entry holds the findings for the team, a digest of the rest, and the digests of evidence,
    policy, contract and profile; the statement says the same and how it was run, signed, for who does not
    trust the database.
    """
    manifest = outcome.manifest
    evidence = plain_bytes(outcome.submission.model_dump(mode="json", by_alias=True))
    only = observed(rules.policy, outcome)
    report = report_of(rules, outcome, ledger=ledger, only=only)
    written = Written.of(report)
    reviewers = [finding for finding in report["findings"] if finding["audience"] != "team"]
    shown = for_team(report)
    judgement = outcome.judgement
    sealed = outcome.submission.sealed
    facts: dict[str, Any] = {
        "acceptd": __version__,
        "team": team,
        "drop": name,
        "uid": uid,
        "verdict": judgement.verdict,
        "reason": shown["reason"],
        "judged_at": judgement.judged_at,
        "observed": only,
        "bundle_digest": sealed.digest if sealed else None,
        "policy": rules.policy.name,
        "policy_digest": rules.policy_digest,
        "contract_digest": outcome.contract_digest or None,
        "profile": rules.profile.name,
        "profile_digest": rules.profile_digest,
        # What a promotion signs beside the bytes: the queue, which keeps both meanwhile, proves nothing.
        "manifest_digest": document_digest(manifest.model_dump(mode="json", by_alias=True)) if manifest else None,
        "options_digest": document_digest(release_options(rules, outcome)),
        "profiles_digest": document_digest(released_profiles(rules, outcome)),
        "profiles": [
            {key: one[key] for key in ("profile", "digest", "required", "verdict", "runtime_identity")}
            for one in report["profiles"]
        ],
        "runtime_identity": outcome.submission.runtime_identity,
        # The submitter's word about origin and terms, marked as such: signed as told, not as verified.
        "declared": declared(manifest),
        # How many sets show what, by their declared origin, and the digests of the preprocessing's examples.
        "goldens": {key: report["goldens"][key] for key in ("models", "fixtures")},
        "independent_exports": [
            {key: one[key] for key in ("model", "file", "exporter", "relation")}
            for one in (model.get("independent_export") for model in report["models"])
            if one
        ],
        "compared_with": report["difference"]["release"],
        "evidence_digest": hashlib.sha256(evidence).hexdigest(),
        # The reviewer's report lies in the queue, where nothing else would hold it.
        "report_digest": written.digest,
        "walls": dict(sorted(outcome.submission.walls.items())),
        "ledger": ledger,
        "inferred": list(outcome.submission.inferred),
        "reviewer_findings": {
            "count": len(reviewers),
            "digest": document_digest(reviewers),
        },
    }
    if outcome.nodes:
        facts["nodes"] = [dict(one) for one in outcome.nodes]
    facts = printable_data(facts)
    findings = recorded_findings(shown)
    body = plain(
        {
            **facts,
            "model": manifest.bundle.id if manifest else None,
            "version": manifest.bundle.version if manifest else None,
            "findings": findings,
        }
    )
    told = sections(outcome.submission, manifest, rules.policy, rules.targets, shown["timings_ms"])
    runtimes = [one.model_dump(mode="json", by_alias=True) for one in outcome.submission.every_runtime()]
    said = {
        **{key: body[key] for key in (*facts, "findings")},
        **plain({**told, "runtimes": runtimes}),
        **bound(outcome.submission.id, judgement.verdict, body["findings"]),
    }
    subjects = verdict_subjects(
        outcome.submission.id,
        manifest.bundle.id if manifest else None,
        sealed.digest if sealed else None,
        [(file.path, file.sha256) for file in sealed.files] if sealed else [],
    )
    kept = [evidence]
    if manifest is not None:
        kept.append(plain_bytes(manifest.model_dump(mode="json", by_alias=True)))
    return Prepared(tuple(kept), report, written, body, said, tuple(subjects), signer)


def recorded_findings(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the findings of a report as the ledger and the statement hold them: short, and all text printable."""
    keys = ("code", "severity", "audience", "stage", "where", "message", "count")
    return [
        printable_data({key: finding[key] for key in keys} | _profile(finding)) for finding in report["findings"]
    ]


def _profile(finding: Mapping[str, Any]) -> dict[str, Any]:
    return {"profile": finding["profile"]} if finding.get("profile") else {}


def report_of(
    rules: Rules, outcome: Outcome, *, ledger: str = "none: nothing is recorded", only: bool = False
) -> dict[str, Any]:
    """Return the whole report of an outcome, as a reviewer may see it. ``only``: recorded in observe mode."""
    return document(
        outcome.submission,
        outcome.judgement,
        outcome.manifest,
        policy_digest=rules.policy_digest,
        policy_name=rules.policy.name,
        profile=rules.profile.name,
        profiles=profile_rows(outcome.judgement, outcome.submission, rules.targets),
        contract_digest=outcome.contract_digest,
        timings_ms=outcome.timings_ms,
        ledger=ledger,
        policy=rules.policy,
        observed=only,
    )


def brief_of(_rules: Rules, outcome: Outcome) -> dict[str, Any]:
    """Return verdict, reason and findings alone, as :func:`report_of` has them."""
    return brief(outcome.judgement)


def observed(policy: Policy, outcome: Outcome) -> bool:
    """Say whether the policy only observes the submission: its verdict never leads to a promotion.

    An inferred id is a guess from the drop's name: it takes nothing under the rules of a model.
    """
    submission, manifest = outcome.submission, outcome.manifest
    model = manifest.bundle.id if manifest is not None and not submission.inferred else None
    return policy.observe.covers(submission.team, model)


def promotable(policy: Policy, outcome: Outcome) -> list[str]:
    """Return the channels that an accepted bundle goes to by itself, in order; none where a person must decide.

    A bundle whose manifest was inferred is never promoted without approval (design, section 4), nor any
    while somebody has to vouch for it first, nor what is only observed.
    """
    if policy.approvals.attestations or observed(policy, outcome):
        return []
    if outcome.judgement.verdict != "accepted" or outcome.submission.inferred:
        return []
    return [one.name for one in policy.all_channels() if one.automatic]


def release_options(rules: Rules, outcome: Outcome) -> dict[str, Any]:
    """Return the session options that the bundle was accepted with, for ``release.json``."""
    return SessionOptions.of(rules.profile, outcome.submission.runtime_identity).model_dump(mode="json")


def released_profiles(rules: Rules, outcome: Outcome) -> list[dict[str, Any]]:
    """Return the profiles that a bundle was accepted under, for ``release.json``; of a held one, held ones too."""
    words = {"accepted": {"accepted"}, "held": {"accepted", "held"}}.get(outcome.judgement.verdict, set())
    accepted = {one.profile for one in outcome.judgement.profiles if one.verdict in words}
    rows = []
    for target in rules.targets:
        name = target.profile.name
        if name in accepted:
            identity = outcome.submission.under(name).runtime_identity
            row = ReleasedProfile(
                profile=name,
                digest=target.digest,
                runtime_identity=identity,
                options=SessionOptions.of(target.profile, identity),
            )
            rows.append(row.model_dump(mode="json"))
    return rows
