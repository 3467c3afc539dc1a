"""What an operator pastes to let a node take part: the policy's lines, and a login in the database."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Final

from acceptd.config import Settings, policies_directory
from acceptd.errors import ConfigError
from acceptd.fleet.order import queue_of
from acceptd.fleet.settings import Role
from acceptd.policy.fleet import NodeRole
from acceptd.record.keys import PublicKey
from acceptd.rules import load_rules

TRUSTED: Final[dict[Role, tuple[NodeRole, ...]]] = {
    "intake": ("intake",),
    "worker": ("worker",),
    "promoter": (),
    "all": ("intake", "worker"),
}
"""In which roles the policy has to trust a node's key; the promoter's words bear the ledger's key."""


def profiles_taken(settings: Settings) -> list[str]:
    """Return the policy's profiles whose queues this node takes, for a person to look at.

    ``cpu`` where there is no such policy yet: a node is enrolled before the policy names it.
    """
    queues = settings.fleet.queues if settings.fleet is not None else []
    try:
        targets = load_rules(policies_directory(settings), settings.policy).targets
    except ConfigError:
        return ["cpu"]
    return [one.profile.name for one in targets if not queues or queue_of(one.profile) in queues]


def trust_lines(name: str, role: NodeRole, key: PublicKey, profiles: Sequence[str]) -> str:
    """Return the table ``[[fleet.trust]]`` for one node in one role. ``profiles`` are a worker's."""
    text = base64.b64encode(key.raw).decode("ascii")
    lines = ["[[fleet.trust]]", f'name = "{name}"', f'role = "{role}"', f'key = "{text}"']
    if role == "worker":
        lines.append(f"profiles = {json.dumps(list(profiles))}")
    return "\n".join(lines)


def login_lines(name: str, role: Role) -> str:
    """Return what makes the node's login in the database, as the owner of the record runs it.

    A name of a node is one of a role in quotes (``acceptd.policy.names``: no quote is in it). How it proves who it
    is (a password, a certificate) is the server's matter.
    """
    of = ("intake", "worker", "promoter") if role == "all" else (role,)
    groups = ", ".join(f"acceptd_{one}" for one in of)
    return f'CREATE ROLE "{name}" LOGIN IN ROLE {groups};'
