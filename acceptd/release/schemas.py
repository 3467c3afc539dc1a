"""JSON Schemas (2020-12) of the signed documents that loaders read, for other loaders and other tools. Pure.

Each is of the payload inside the file's DSSE envelope.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from acceptd.policy.schemas import shipped
from acceptd.policy.table import Table
from acceptd.release.model import ChannelDocument, ReleaseDocument, RevocationsDocument
from acceptd.release.trust import CHANNEL_TYPE, RELEASE_TYPE, REVOCATIONS_TYPE

KINDS: Final[Mapping[str, tuple[type[Table], str]]] = MappingProxyType(
    {
        "release": (ReleaseDocument, f"the payload of release.json ({RELEASE_TYPE})"),
        "channel": (ChannelDocument, f"the payload of channel.json ({CHANNEL_TYPE})"),
        "revocations": (RevocationsDocument, f"the payload of revocations.json ({REVOCATIONS_TYPE})"),
    }
)
"""Kind to its model and title."""


def schema_text(kind: str) -> str:
    """Return the JSON Schema of one kind as indented ASCII JSON; raise KeyError for another word."""
    return shipped(*KINDS[kind])
