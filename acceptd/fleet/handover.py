"""What an intake hands over: what became of a drop there, signed with the node's own key.

Of a drop that was sealed the seal statement (:mod:`acceptd.fleet.seal`) is signed, which binds what lies beside
it in the record; of any other the whole account, which stands nowhere else. What nobody signed counts for nothing:
others may write to the record too.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import Field, ValidationError

from acceptd.errors import LedgerError, MalformedError
from acceptd.evidence import JobRecord, Sealed, SealFailure
from acceptd.record import attest
from acceptd.record.canonical import parse, plain_bytes
from acceptd.record.keys import Signer
from acceptd.record.queue import Submission as Row
from acceptd.steps.ends import End
from acceptd.steps.sealing import NotSealed, SealedDrop
from acceptd.values import Evidence

TYPE: Final = "application/vnd.acceptd.fleet-handover+json"
ENDS: Final = frozenset({"cell/deadline", "cell/withdrawn", "cell/daemon-died"})
"""Codes by which an intake may end a submission without evidence."""


class Ended(Evidence):
    """Why there is nothing to examine: a finding's code and its message."""

    code: Annotated[str, Field(max_length=64)]
    message: Annotated[str, Field(max_length=400)]


class Handover(Evidence):
    """One drop. One of ``sealed``, ``failure``, a failed ``unpack`` and ``ended`` says what became of it."""

    submission: Annotated[str, Field(max_length=128)]
    node: Annotated[str, Field(max_length=64)]
    team: Annotated[str, Field(max_length=64)]
    drop: Annotated[str, Field(max_length=1024)]
    uid: int | None
    sealed: Sealed | None = None
    model: Annotated[str, Field(max_length=129)] = ""
    """The id in the manifest, where one was read and is valid."""
    unpack: Annotated[list[JobRecord], Field(max_length=4)] = []
    seal_ms: float = 0.0
    failure: SealFailure | None = None
    outer: Annotated[dict[str, str], Field(max_length=32)] = {}
    """States of the outer walls, where unpacking failed."""
    ended: Ended | None = None

    @classmethod
    def of(cls, row: Row, node: str, found: SealedDrop | NotSealed | End, model: str = "") -> Self:
        """Return what became of a drop."""
        said: dict[str, Any] = {
            "submission": row.id, "node": node, "team": row.team, "drop": row.name, "uid": row.uid,
        }  # fmt: skip
        if isinstance(found, End):
            return cls(**said, ended=Ended(code=found.code, message=found.message))
        if isinstance(found, SealedDrop):
            return cls(**said, sealed=found.sealed, model=model, unpack=list(found.unpack), seal_ms=found.ms)
        return cls(**said, failure=found.failure, unpack=list(found.unpack), outer=dict(found.outer or {}))

    @property
    def not_sealed(self) -> NotSealed:
        """Return why it could not be sealed; only where neither ``sealed`` nor ``ended`` says otherwise."""
        return NotSealed(self.failure, tuple(self.unpack), self.outer)

    def signed(self, signer: Signer) -> dict[str, Any]:
        """Return the DSSE envelope."""
        return attest.sign(TYPE, plain_bytes(self.model_dump(mode="json", by_alias=True)), signer)

    @classmethod
    def read(cls, payload: bytes, row: Row) -> Self:
        """Return what the signed bytes say, of this submission.

        Raises MalformedError: another form, of another submission or team, or an end that no intake may give.
        """
        try:
            found = cls.model_validate(parse(payload), strict=False)
        except (LedgerError, ValidationError) as error:
            raise MalformedError(f"no handover: {error}"[:400]) from error
        for name, here in (("submission", row.id), ("team", row.team), ("drop", row.name), ("uid", row.uid)):
            if getattr(found, name) != here:
                raise MalformedError(f"the handover is of another {name} than the record says")
        if found.ended is not None and found.ended.code not in ENDS:
            raise MalformedError(f"an intake may not end a submission with {found.ended.code!r:.80}")
        if found.sealed is not None:
            raise MalformedError("a drop that was sealed is handed over with a seal statement")
        return found
