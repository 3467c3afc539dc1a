"""The list of advisories as people sign it: its form, the bytes that are signed, and how it is opened again. Pure.

A reviewer signs it (``reviewers.toml``), in a DSSE envelope with a payload type of its own. It is bound to no
instance: who looks after several signs one list for all. Its number rises, and it expires.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, Field, model_validator

from acceptd.errors import LedgerError, MalformedError
from acceptd.policy.names import Moment, Sha256
from acceptd.policy.reviewers import Reviewer, Reviewers
from acceptd.policy.schemas import shipped
from acceptd.policy.table import Table, Text
from acceptd.policy.troubles import Trouble, first
from acceptd.record import attest
from acceptd.record.canonical import canonical, parse
from acceptd.record.keys import Signer
from acceptd.review.decision import ROLE, ReviewerKeys

ADVISORIES_TYPE: Final = "application/vnd.acceptd.advisories+json"
MAX_BYTES: Final = 4 << 20
MAX_NUMBER: Final = 2**53 - 1


def _specifier(value: str) -> str:
    try:
        SpecifierSet(value)
    except InvalidSpecifier as error:
        raise ValueError(f"{value[:80]!r} is no version specifier, for example >=1.17,<1.18.1") from error
    return value


Specifier = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_specifier)]


class Advisory(Table):
    """One warning. It speaks of a runtime that has one of its libraries, or a version of one of its packages."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    """Its public name, such as a CVE number."""
    summary: Annotated[str, Field(min_length=1, max_length=1000)]
    url: Annotated[str, Field(max_length=1000, pattern=r"^(https://[!-~]+)?$")] = ""
    versions: Specifier | None = None
    """Versions of onnxruntime (PEP 440); without: none."""
    packages: Annotated[list[Annotated[str, Field(min_length=1, max_length=128)]], Field(max_length=64)] = []
    """Distributions that ``versions`` are of, such as onnxruntime-openvino; empty: all."""
    libraries: Annotated[list[Sha256], Field(max_length=10_000)] = []
    """Digests of native libraries, whatever version they call themselves."""

    @model_validator(mode="after")
    def _speaks(self) -> Advisory:
        if self.versions is None and not self.libraries:
            raise ValueError("versions, libraries or both are needed: it speaks of no runtime")
        return self


class AdvisoryList(Table):
    """The whole list. A newer one replaces an older one; what it leaves out is withdrawn."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    number: Annotated[int, Field(ge=1, le=MAX_NUMBER)]
    """Rises: a list is never replaced by one with a lower number, or the same."""
    issued_at: Moment
    expires_at: Moment
    note: Text | None = None
    advisories: Annotated[list[Advisory], Field(max_length=4096)] = []

    @model_validator(mode="after")
    def _in_order(self) -> AdvisoryList:
        if self.expires_at <= self.issued_at:
            raise ValueError("expires_at: is not after issued_at")
        names = [one.id for one in self.advisories]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise ValueError(f"advisories: two have the id {twice}")
        return self


def read(document: Any) -> AdvisoryList:
    """Return the list in JSON data; raise MalformedError with the place where it is none."""
    if not isinstance(document, dict):
        raise MalformedError("the list of advisories is no JSON object")
    found = first(document, AdvisoryList)
    if isinstance(found, Trouble):
        raise MalformedError(f"the list of advisories: {f'{found.key}: ' if found.key else ''}{found.message}")
    return found


def to_sign(said: AdvisoryList) -> bytes:
    """Return the payload: RFC 8785 bytes."""
    return canonical(said.model_dump(mode="json", by_alias=True))


def sign(said: AdvisoryList, signer: Signer) -> attest.Envelope:
    """Return the envelope of a list, signed by a reviewer's key."""
    return attest.sign(ADVISORIES_TYPE, to_sign(said), signer)


def opened(envelope: object, reviewers: Reviewers) -> tuple[AdvisoryList, Reviewer]:
    """Return a list and who signed it.

    Raises SignatureError where no reviewer's key has signed it, MalformedError where it is no canonical list.
    """
    keys = ReviewerKeys(reviewers)
    payload = attest.verify(envelope, ADVISORIES_TYPE, keys, ROLE)  # type: ignore[arg-type] # as a decision
    assert keys.used is not None
    try:
        return read(parse(payload)), keys.used
    except LedgerError as error:
        raise MalformedError(f"the list of advisories is {error}") from error


def schema_text(_kind: str = "advisories") -> str:
    """Return the JSON Schema of a list as it is shipped."""
    return shipped(AdvisoryList, "a list of advisories about runtimes, of acceptd")
