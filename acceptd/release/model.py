"""The signed documents as frozen models: ``release.json``, ``channel.json`` and ``revocations.json``.

These models *write*; what a loader believes is decided in :mod:`acceptd.release.trust`, without pydantic.
``model_json_schema()`` of each gives its JSON Schema.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field

from acceptd.policy.manifest import BundlePath, Table
from acceptd.policy.names import ModelId, Name, Sha256, valid_moment
from acceptd.policy.profile import LibraryName, Profile, Provider
from acceptd.release.trust import MAX_NUMBER
from acceptd.runtime.identity import RuntimeRecord

Number = Annotated[int, Field(ge=1, le=MAX_NUMBER)]
Count = Annotated[int, Field(ge=0, lt=2**53)]
Stamp = Annotated[
    str,
    Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"),
    AfterValidator(valid_moment),
]
Reason = Annotated[str, Field(max_length=2000)]
Kind = Literal["promote", "rollback", "rekey"]


class OperatorLibrary(Table):
    """A library of custom operators that the model was accepted with; where it lies is the loader's to say."""

    name: LibraryName
    sha256: Sha256
    abi: Annotated[int, Field(ge=1, le=1000)]
    domain: Annotated[str, Field(min_length=1, max_length=128)]


class SessionOptions(Table):
    """The accepted session options. The loader applies exactly these, and its own fixed ones on top."""

    profile: Name = "cpu"
    onnxruntime: Annotated[str, Field(max_length=64)] = ""
    """Pinned version; empty: none is."""
    libraries: Annotated[dict[LibraryName, Sha256], Field(max_length=512)] = {}
    """Pinned native libraries by file name; empty: none is."""
    custom_operators: Annotated[list[OperatorLibrary], Field(max_length=16)] = []
    providers: Annotated[list[Provider], Field(min_length=1, max_length=16)] = ["CPUExecutionProvider"]
    provider_options: Annotated[dict[Provider, dict[str, str]], Field(max_length=16)] = {}
    allow_cpu_fallback: bool = False
    intra_op_threads: Annotated[int, Field(ge=1, le=256)] = 1
    inter_op_threads: Annotated[int, Field(ge=1, le=256)] = 1
    optimisation: Literal["disable", "basic", "extended", "all"] = "all"
    session_entries: Annotated[dict[str, str], Field(max_length=64)] = {}
    runtime_identity: Sha256 | None = None
    """Identity of the runtime that the model was accepted on, where it was measured."""

    @classmethod
    def of(cls, profile: Profile, runtime_identity: str | None = None) -> SessionOptions:
        """Return the options that a profile means."""
        apart = {"schema_", "name", "interpreter", "custom_operators", "reduced_build", "cpu_operators"}
        kept = profile.model_dump(exclude=apart)
        operators = [
            OperatorLibrary(name=PurePosixPath(one.path).name, sha256=one.sha256, abi=one.abi, domain=one.domain)
            for one in profile.custom_operators
        ]
        return cls(profile=profile.name, custom_operators=operators, runtime_identity=runtime_identity, **kept)


class ReleasedProfile(Table):
    """A runtime that the release holds for: the bundle was run and accepted under this profile."""

    profile: Name
    digest: Sha256
    """Of the profile's file, as it was when the bundle was judged."""
    runtime_identity: Sha256 | None = None
    options: SessionOptions


class FileRow(Table):
    """One file of the bundle."""

    path: BundlePath
    sha256: Sha256
    size: Count


class Prior(Table):
    """The release that was current before."""

    number: Number
    bundle_digest: Sha256
    release_digest: Sha256


class Inclusion(Table):
    """Inclusion proof of the ``intent`` entry; hashes in hex, the exact leaf in base64."""

    seq: Count
    leaf: str
    leaf_hash: Sha256
    size: Count
    root: Sha256
    path: Annotated[list[Sha256], Field(max_length=64)]


class PreprocessingIdentity(Table):
    """Which preprocessing the model was made for, as the bundle declares it."""

    version: Annotated[str, Field(max_length=64)]
    sha256: Sha256
    """The submitter's digest of it: what a caller compares with his own."""


class LabelIdentity(Table):
    """Which labels the outputs have, in which order (:func:`acceptd.release.identity.labels_of`)."""

    schema_version: Annotated[str, Field(max_length=64)]
    sha256: Sha256


class AcceptedRuntime(Table):
    """The runtime that the bundle was really accepted on under one profile: its whole record.

    The record's RFC 8785 form gives the profile's ``runtime_identity``.
    """

    profile: Name
    record: RuntimeRecord


class Decided(NamedTuple):
    """What people decided about a verdict: why it may not be promoted (empty: it may), and by which entries."""

    refusal: str
    by: tuple[int, ...] = ()
    glass: bool = False
    """Whether somebody broke the glass: that spares the bundle its time in another channel."""


class ReleaseDocument(Table):
    """The payload of ``release.json``: immutable, without expiry."""

    schema_: Annotated[Literal[1], Field(alias="schema", serialization_alias="schema")] = 1
    model_id: ModelId
    channel: Name
    number: Number
    kind: Kind
    reason: Reason
    released_at: Stamp
    bundle_digest: Sha256
    files: Annotated[list[FileRow], Field(min_length=1)]
    manifest: dict[str, Any]
    manifest_by: Literal["submitter"] = "submitter"
    """Whose word the manifest is: purpose, licence, prohibited uses and export record are told, not measured."""
    options: SessionOptions
    """Of the first profile."""
    profiles: Annotated[list[ReleasedProfile], Field(max_length=16)] = []
    """Every profile that the release holds for; empty in one made before there were several."""
    runtimes: Annotated[list[AcceptedRuntime], Field(max_length=16)] = []
    """Of those profiles whose runtime was measured and is still on record; empty in earlier releases."""
    preprocessing: PreprocessingIdentity | None = None
    """As the manifest declares it; None: it declares none, or the release is an earlier one."""
    labels: LabelIdentity | None = None
    verdict_seq: Count
    decisions: Annotated[list[Count], Field(max_length=256)] = []
    """Ledger entries of the people's decisions that it rests on; none where the verdict alone accepted it."""
    prior: Prior | None
    inclusion: Inclusion | None
    checkpoint: Annotated[str, Field(max_length=16 << 10)] = ""
    """The ledger's checkpoint (a signed note) that the inclusion proof leads to: of its size, with its root.
    Empty where none could be signed then (the ledger key elsewhere, an anchor out of reach)."""


class ChannelDocument(Table):
    """The payload of ``channel.json``: short-lived, replaced by rename, refreshed by the daemon."""

    schema_: Annotated[Literal[1], Field(alias="schema", serialization_alias="schema")] = 1
    model_id: ModelId
    channel: Name
    number: Number
    release_digest: Sha256
    least_revocations: Count
    sequence: Annotated[int, Field(ge=1, lt=2**53)]
    issued_at: Stamp
    expires_at: Stamp


class RevokedRow(Table):
    """One revoked bundle digest."""

    digest: Sha256
    reason: Reason
    at: Stamp


class RevocationsDocument(Table):
    """The payload of ``revocations.json``: the whole list under a number that only rises."""

    schema_: Annotated[Literal[1], Field(alias="schema", serialization_alias="schema")] = 1
    number: Annotated[int, Field(ge=1, lt=2**53)]
    issued_at: Stamp
    revoked: list[RevokedRow]
