"""A stored submission as the judge needs it: evidence, manifest, contract, policy and profiles as they were.

The entry of a verdict holds the digest of each, and the ledger's evidence the bytes by digest. What is not
there, or is not what today's schemas know, makes the submission not replayable, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import rfc8785
from pydantic import BaseModel, ValidationError

from acceptd.errors import ConfigError
from acceptd.evidence import Submission
from acceptd.judge.profiles import Target
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.policy.reduced import Reduced, parse_reduced
from acceptd.record.entry import Entry
from acceptd.record.log import Ledger
from acceptd.rules import Rules

T = TypeVar("T", bound=BaseModel)


class NotReplayableError(Exception):
    """Why a stored submission cannot be judged again; not an error of anybody."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One submission, whole. ``body`` is that of its verdict's entry."""

    id: str
    body: Mapping[str, Any]
    submission: Submission
    manifest: Manifest | None
    contract: Contract | None
    policy: Policy
    targets: tuple[Target, ...]


class Shelf:
    """Reads stored submissions; what many have in common (policies, profiles, contracts) is read once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[tuple[type[BaseModel], str], BaseModel] = {}
        self._reduced: dict[str, Reduced] = {}

    def read(self, entry: Entry) -> Stored:
        """Return what a verdict was made from.

        Raises NotReplayableError with the reason, and LedgerError where a blob is not what its digest says.
        """
        body = entry.body
        submission = self._submission(str(body.get("evidence_digest")))
        if not submission.jobs and submission.seal_failure is None:
            raise NotReplayableError(f"nothing was examined: {body.get('reason', '')}"[:300])
        contract, manifest = body.get("contract_digest"), body.get("manifest_digest")
        policy = self._table(Policy, "policy", body.get("policy_digest"))
        return Stored(
            id=str(entry.submission),
            body=body,
            submission=submission,
            manifest=self._manifest(manifest) if manifest else None,
            contract=self._table(Contract, "contract", contract) if contract else None,
            policy=policy,
            targets=tuple(self._target(row) for row in _profiles(body)),
        )

    def _submission(self, digest: str) -> Submission:
        blob = self._ledger.evidence(digest)
        if blob is None:
            raise NotReplayableError("its evidence is no longer kept")
        try:
            # Not strict: a float that prints as too large an integer was stored as text.
            return Submission.model_validate(json.loads(blob), strict=False)
        except (ValidationError, ValueError, RecursionError) as error:
            raise NotReplayableError(f"its evidence has another form: {_words(error)}") from error

    def _manifest(self, digest: str) -> Manifest:
        # Submitted text: unlike the operator's rules no two submissions have to share one.
        return self._validated(Manifest, "manifest", digest)

    def _table(self, kind: type[T], what: str, digest: object) -> T:
        key = (kind, str(digest))
        if key not in self._known:
            self._known[key] = self._validated(kind, what, str(digest))
        found = self._known[key]
        assert isinstance(found, kind)
        return found

    def _validated(self, kind: type[T], what: str, digest: str) -> T:
        blob = self._ledger.evidence(digest)
        if blob is None:
            raise NotReplayableError(f"the {what} that it was judged with is not kept")
        try:
            return kind.model_validate(json.loads(blob))
        except (ValidationError, ValueError, RecursionError) as error:
            raise NotReplayableError(
                f"the {what} that it was judged with has another form: {_words(error)}"
            ) from error

    def _target(self, row: Mapping[str, Any]) -> Target:
        profile = self._table(Profile, f"profile {row.get('profile')}", row.get("digest"))
        return Target(profile, str(row["digest"]), self._built_with(profile), row.get("required") is not False)

    def _built_with(self, profile: Profile) -> Reduced | None:
        if profile.reduced_build is None:
            return None
        digest = profile.reduced_build.sha256
        if digest not in self._reduced:
            blob = self._ledger.evidence(digest)
            if blob is None:
                raise NotReplayableError(f"the operators file of profile {profile.name} is not kept")
            try:
                self._reduced[digest] = parse_reduced(blob, profile.reduced_build.config)
            except ConfigError as error:
                raise NotReplayableError(error.message) from error
        return self._reduced[digest]


def rules_content(
    rules: Rules, contract: Contract | None, contract_digest: str, known: Collection[str]
) -> Iterator[bytes]:
    """Yield the text of each rule that a submission is judged with and whose digest is not ``known``.

    :class:`Shelf` finds them again by that digest.
    """
    tables: list[tuple[str, BaseModel]] = [(rules.policy_digest, rules.policy)]
    tables += [(target.digest, target.profile) for target in rules.targets]
    if contract is not None:
        tables.append((contract_digest, contract))
    for digest, table in tables:
        if digest not in known:
            yield rfc8785.dumps(table.model_dump(mode="json", by_alias=True))
    for target in rules.targets:
        if target.profile.reduced_build is not None and target.profile.reduced_build.sha256 not in known:
            yield target.source


def _profiles(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return name, digest and weight of each profile; a verdict from before there were several has one."""
    rows = body.get("profiles")
    if isinstance(rows, list) and rows:
        return [row for row in rows if isinstance(row, dict)]
    return [{"profile": body.get("profile"), "digest": body.get("profile_digest"), "required": True}]


def _words(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"[:200]
    return str(error)[:200]
