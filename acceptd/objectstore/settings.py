"""``[objects]`` of ``acceptd.toml``: where the nodes of a fleet keep bundles and evidence."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_PART: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_SECRETS: Final = ("key", "secret", "token", "password", "credential", "profile", "anon")
_REMEDY: Final = (
    "credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from ~/.aws, never from here"
)


class Where(NamedTuple):
    """A place for objects: ``scheme`` is ``file`` or ``s3``; the bucket is empty for a directory."""

    scheme: str
    bucket: str
    path: str
    """A directory's absolute path, or what stands before every key, without slashes at its ends."""


def parsed(url: str) -> Where:
    """Return what a URL of objects means; raise ValueError, in words, for one that cannot be meant."""
    try:
        parts = urlsplit(url)
        user = parts.username or parts.password
    except ValueError as error:
        raise ValueError(f"{url[:200]!r} is no URL: {error}") from None
    if user is not None or "@" in parts.netloc:
        raise ValueError(f"a URL holds no user and no password: {_REMEDY}")
    if parts.query or parts.fragment:
        raise ValueError("a URL of objects ends with its path: no '?' and no '#'")
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/") or parts.path.strip("/") == "":
            raise ValueError(f"{url[:200]!r}: write file:///an/absolute/path")
        if ".." in parts.path.split("/") or "\0" in parts.path:
            raise ValueError(f"{url[:200]!r}: '..' leads nowhere here")
        return Where("file", "", parts.path.rstrip("/"))
    if parts.scheme == "s3":
        prefix = parts.path.strip("/")
        if not _BUCKET.fullmatch(parts.netloc) or ".." in parts.netloc:
            raise ValueError(f"{parts.netloc[:80]!r} is no name of a bucket: write s3://bucket/prefix")
        if prefix and not all(_PART.fullmatch(part) for part in prefix.split("/")):
            raise ValueError(f"{prefix[:200]!r}: a prefix is made of letters, digits, '.', '_', '-' and '/'")
        return Where("s3", parts.netloc, prefix)
    raise ValueError(f"{url[:200]!r}: there are file:///path and s3://bucket/prefix")


class ObjectsTable(BaseModel):
    """The object store of a fleet; a single machine needs none. Credentials never stand here."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    url: Annotated[str, Field(max_length=1024)] = ""
    """``s3://bucket/prefix`` or ``file:///path``. Empty: the directory ``objects`` in the state."""
    endpoint: Annotated[str, Field(max_length=1024)] = ""
    """Of a server other than Amazon's: ``https://host:port``."""
    region: Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9-]*$")] = ""
    """Empty: what the environment says, else ``us-east-1``."""
    cache_bytes: Annotated[int, Field(ge=1 << 20)] = 32 << 30
    """Bytes of bundles that a node keeps beside itself. A bundle that is larger than this is refused."""
    seconds: Annotated[float, Field(ge=1, le=600, strict=False)] = 60.0
    """For one request, its body included: at most 16 MiB go or come in one."""
    tries: Annotated[int, Field(ge=1, le=20)] = 5
    """Of one request that fails for a reason that may pass; the pause between doubles from 0.25 s to 15 s."""
    together: Annotated[int, Field(ge=1, le=32)] = 4
    """Requests of one bundle that are under way at once; each takes some 50 MiB of memory."""
    unconditional: bool = False
    """Write although the store keeps no conditions: it is looked first, and two writers may both write."""
    unused_days: Annotated[int, Field(ge=1, le=36_500)] = 7
    """Objects that nothing names are removed so long after that was first seen."""

    @model_validator(mode="before")
    @classmethod
    def _no_secrets(cls, value: Any) -> Any:
        for key in value if isinstance(value, dict) else ():
            if any(word in str(key).lower() for word in _SECRETS):
                raise ValueError(f"{str(key)[:60]!r} does not belong here: {_REMEDY}")
        return value

    @field_validator("url")
    @classmethod
    def _url(cls, value: str) -> str:
        if value:
            parsed(value)
        return value

    @field_validator("endpoint")
    @classmethod
    def _endpoint(cls, value: str) -> str:
        if not value:
            return value
        try:
            parts = urlsplit(value)
            odd = parts.username is not None or parts.port == 0
        except ValueError as error:
            raise ValueError(f"{value[:200]!r} is no URL: {error}") from None
        if odd or "@" in parts.netloc:
            raise ValueError(f"an endpoint holds no user and no password: {_REMEDY}")
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{value[:200]!r}: write https://host:port")
        if parts.path.strip("/"):
            raise ValueError(f"{value[:200]!r}: an endpoint has no path; the prefix stands in url")
        return value

    @model_validator(mode="after")
    def _fits(self) -> ObjectsTable:
        if self.endpoint and not self.url.startswith("s3://"):
            raise ValueError("endpoint: only an s3:// url has one")
        return self
