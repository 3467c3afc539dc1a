"""What an examination found out, whole: the document between who ran a model and who judges it.

Embedded it never leaves the process. In a fleet a worker hands it over as bytes (:meth:`Examined.to_bytes`), and
what comes back from them is judged to the same findings. Contract and advisories are not in it but by their
digest and standing: who judges knows them himself.
"""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field, ValidationError

from acceptd.advisory_facts import AdvisoryStanding
from acceptd.errors import LedgerError, MalformedError
from acceptd.evidence import Facts, HeldOut, Prior, Submission
from acceptd.judge.jobs import Jobs
from acceptd.policy.manifest import Manifest
from acceptd.record.canonical import parse, plain_bytes
from acceptd.values import Evidence

MAX_BYTES: Final = 32 << 20
"""The most that such a document may have: evidence of many models with all their cases stays far below, and what
reads it needs some eighteen times as much memory."""


class Examined(Evidence):
    """One examination under the profiles ``profiles``, as far as it came. ``submission`` is its evidence.

    ``manifest``: None where none was read, or it is not valid (then ``submission.manifest_error`` says why).
    """

    profiles: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=16)]
    submission: Submission
    manifest: Manifest | None = None
    contract_digest: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    """Of the contract that it was examined under; empty: none was looked for, or there is none."""
    timings_ms: Annotated[dict[str, float], Field(max_length=64)] = {}
    """By stage, by the clock of who examined."""

    def to_bytes(self) -> bytes:
        """Return it as canonical JSON (RFC 8785)."""
        return plain_bytes(self.model_dump(mode="json", by_alias=True))

    @classmethod
    def from_bytes(cls, data: bytes, most: int = MAX_BYTES) -> Self:
        """Return what :meth:`to_bytes` wrote, and nothing else: other bytes would not be written again alike.

        What an older version did not know of is left out there, and has its default. Raises MalformedError: more
        than ``most`` bytes, no canonical JSON (two keys alike, NaN, too deep), or not this document.
        """
        if len(data) > most:
            raise MalformedError(f"evidence of {len(data)} bytes, at most {most} are read")
        try:
            # Not strict: a float that prints as too large an integer was written as text.
            found = cls.model_validate(parse(data), strict=False)
        except LedgerError as error:
            raise MalformedError(f"the evidence is {error}") from error
        except ValidationError as error:
            raise MalformedError(f"the evidence has another form: {_words(error)}") from error
        if plain_bytes(found.model_dump(mode="json", by_alias=True, exclude_unset=True)) != data:
            raise MalformedError("the evidence has another form: values that are written otherwise")
        return found

    def with_heldout(self, held: HeldOut) -> Self:
        """Return it with what came of held-out vectors."""
        return self.model_copy(update={"submission": self.submission.model_copy(update={"heldout": held})})

    def advised(self, standing: AdvisoryStanding | None) -> Self:
        """Return it with what who judges knows of advisories about its runtimes."""
        return self.model_copy(update={"submission": self.submission.model_copy(update={"advisories": standing})})

    def facts(self) -> dict[str, Facts]:
        """Return the facts of all inspected models by their files."""
        if self.manifest is None:
            return {}
        by_name = Jobs(tuple(self.submission.jobs)).facts(self.manifest)
        return {one.file: by_name[one.name] for one in self.manifest.inspected if one.name in by_name}


def prior_of(data: bytes) -> Prior:
    """Return which release a model is compared with, as an order names it by its digest.

    Raises MalformedError: that an order names what is none is never taken for storage that is away.
    """
    try:
        return Prior.model_validate(parse(data), strict=False)
    except LedgerError as error:
        raise MalformedError(f"the prior release is {error}") from error
    except ValidationError as error:
        raise MalformedError(f"the prior release has another form: {_words(error)}") from error


def _words(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"[:200]
