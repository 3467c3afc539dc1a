"""JSON Schemas (2020-12) of everything that people write, for editors and for other tools. Pure.

Rules between keys (ranges in order, names that must agree) are no part of JSON Schema; ``policy check`` has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel

from acceptd.policy.contract import Contract
from acceptd.policy.defaults import ContractDefaults
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile

KINDS: Final[Mapping[str, tuple[type[BaseModel], str]]] = MappingProxyType(
    {
        "bundle": (Manifest, "bundle.toml of acceptd"),
        "policy": (Policy, "a policy of acceptd"),
        "contract": (Contract, "a contract of acceptd"),
        "defaults": (ContractDefaults, "what contracts of acceptd inherit"),
        "profile": (Profile, "a profile of acceptd"),
    }
)
"""Kind to its schema class and title."""


def schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of one kind. Raises KeyError for another word than those of KINDS."""
    model, title = KINDS[kind]
    return _headed(model, title)


def schema_text(kind: str) -> str:
    """Return the JSON Schema as indented ASCII JSON, the same for the same version."""
    return shipped(*KINDS[kind])


def shipped(model: type[BaseModel], title: str, identifier: str = "") -> str:
    """Return the JSON Schema of a model as it is shipped; ``identifier`` is its ``$id`` where it has one."""
    whole = _headed(model, title) | ({"$id": identifier} if identifier else {})
    return json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=True) + "\n"


def _headed(model: type[BaseModel], title: str) -> dict[str, Any]:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return {**model.model_json_schema(by_alias=True), **head}
