"""``[[exports]]`` and ``[[hooks]]`` of ``acceptd.toml``: where copies of releases go, and whom to tell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from acceptd.objectstore.settings import ObjectsTable
from acceptd.policy.names import ModelId, Name

Kind = Literal["plain", "triton"]


class _Selecting(BaseModel):
    """What exports and hooks share: a name of their own, and which releases they are about."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    name: Name
    """By which logs and ``acceptd status`` call it."""
    channels: Annotated[list[Name], Field(min_length=1, max_length=64)] = ["production"]
    """Of which channels."""
    models: Annotated[list[ModelId], Field(max_length=10_000)] = []
    """Model ids (``team/name``); empty: all."""

    def selects(self, model_id: str, channel: str) -> bool:
        """Say whether a release of this model on this channel is meant."""
        return channel in self.channels and (not self.models or model_id in self.models)


class ExportTable(_Selecting):
    """One directory, or one prefix of a bucket, that follows what is current."""

    kind: Kind
    """A plain directory, or a Triton model repository."""
    directory: Annotated[str, Field(max_length=4096)] = ""
    """An absolute path outside the state directory. acceptd never makes it: a volume may not be mounted."""
    url: Annotated[str, Field(max_length=1024)] = ""
    """Instead of a directory: ``s3://bucket/prefix``, where nothing else lies."""
    endpoint: Annotated[str, Field(max_length=1024)] = ""
    """Of the url's server, as ``objects.endpoint``."""
    region: Annotated[str, Field(max_length=64)] = ""
    """As ``objects.region``."""
    keep: Annotated[int, Field(ge=1, le=100)] = 2
    """Numbers that stay there, the current one included: readers of the one before may still be at work."""

    @model_validator(mode="after")
    def _one_place(self) -> ExportTable:
        if bool(self.directory) == bool(self.url):
            raise ValueError("an export has either a directory or a url")
        if self.url:
            self.objects()
        elif self.endpoint or self.region:
            raise ValueError("endpoint, region: only a url has them")
        if self.directory and not Path(self.directory).is_absolute():
            raise ValueError(f"directory: {self.directory[:200]!r} is no absolute path")
        if self.kind == "triton" and len(self.channels) != 1:
            raise ValueError("channels: a Triton repository holds one channel; add another [[exports]] for others")
        return self

    def objects(self) -> ObjectsTable:
        """Return the place that the url means; raise ValueError where it cannot be meant."""
        if not self.url.startswith("s3://"):
            raise ValueError(f"url: {self.url[:200]!r}: write s3://bucket/prefix; a path is a directory")
        return ObjectsTable(url=self.url, endpoint=self.endpoint, region=self.region)

    @property
    def where(self) -> str:
        """For people: the directory or the url."""
        return self.directory or self.url


class HookTable(_Selecting):
    """One command that is told of each release, rollback and revocation."""

    command: Annotated[list[Annotated[str, Field(max_length=4096)]], Field(min_length=1, max_length=64)]
    """A program by its absolute path, with its arguments; no shell."""
    user: Annotated[str, Field(max_length=64)] = ""
    """Whose rights it has. Empty: ``nobody`` where the daemon is root, else the daemon's own user."""
    seconds: Annotated[float, Field(ge=0.1, le=3600, strict=False)] = 30.0
    """After so long it is killed with all that it started."""
    tries: Annotated[int, Field(ge=1, le=10)] = 3
    """How often one event is told to a hook that fails, before it is counted as failed and passed over."""

    @model_validator(mode="after")
    def _in_full(self) -> HookTable:
        if not Path(self.command[0]).is_absolute():
            raise ValueError(f"command: {self.command[0][:200]!r} is no absolute path of a program")
        return self


def distinct(exports: Sequence[ExportTable], hooks: Sequence[HookTable], objects: ObjectsTable) -> None:
    """Raise ValueError where two have one name, or two exports, or one and the objects, lie in one another."""
    for what, names in (("exports", [one.name for one in exports]), ("hooks", [one.name for one in hooks])):
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise ValueError(f"{what}: two have the name {twice!r}")
    places = [(one.where, _place(one.endpoint, one.where)) for one in exports]
    places += [(objects.url, _place(objects.endpoint, objects.url))] if objects.url else []
    for index, (where, place) in enumerate(places):
        for other, beside in places[index + 1 :]:
            if place == beside[: len(place)] or beside == place[: len(beside)]:
                raise ValueError(f"exports: {where} and {other} lie in one another; each needs its own place")


def _place(endpoint: str, where: str) -> tuple[str, ...]:
    """Return a place in parts, so that one which begins with all parts of another lies in it."""
    path = where.removeprefix("file://")
    if path.startswith("s3://"):
        return (endpoint, *path.removeprefix("s3://").strip("/").split("/"))
    return ("/", *Path(path).parts[1:])
