"""What a role must not be able to do: looked for at its start, and refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import structlog
from sqlalchemy import Connection, text

from acceptd.config import Paths
from acceptd.errors import ConfigError
from acceptd.fleet.settings import Role
from acceptd.record.keys import ROLES
from acceptd.record.keystore import is_here
from acceptd.record.log import Ledger

log = structlog.get_logger("acceptd.fleet")
POWERS: Final = {
    "append to the ledger": ("entries", "INSERT"),
    "change submissions": ("submissions", "UPDATE"),
}
"""What a database login may be able to do: the table and the right that it takes."""
NOT_FOR: Final[dict[Role, frozenset[str]]] = {
    "worker": frozenset(POWERS),
    "intake": frozenset({"append to the ledger"}),
}


NEEDS: Final[dict[Role, tuple[tuple[str, str, str], ...]]] = {
    "promoter": (("append to the ledger", "entries", "INSERT"),),
    "intake": (("bring submissions in", "submissions", "INSERT"),),
    "worker": (("add evidence", "fleet_evidence", "INSERT"),),
}
"""What a role's database login must be able to do: in words, the table and the right that it takes."""


def require_no_keys(paths: Paths, role: Role) -> None:
    """Raise ConfigError where the state of an intake or a worker can sign as the ledger or for releases."""
    if role not in NOT_FOR:
        return
    for key in ROLES:
        if is_here(paths.state, key):
            raise ConfigError(
                f"{paths.keys}: this {role} holds the {key} key, which is the promoter's alone",
                remedy=f"make a state of its own: acceptd init --role {role} --state DIR; or --role all here",
            )


def require_keys(paths: Paths, roles: Iterable[str]) -> None:
    """Raise ConfigError where a promoter cannot sign."""
    if {"promoter", "all"} & set(roles):
        for key in ("ledger", "release"):
            if not is_here(paths.state, key):
                raise ConfigError(
                    f"{paths.keys}: the promoter needs the {key} key",
                    remedy=f"acceptd init --role promoter --state {paths.state}",
                )


def require_login(ledger: Ledger, role: Role, name: str) -> None:
    """Raise ConfigError where the database login may not do what its role is there for. A file has no logins.

    Nor does it do that where the name of the node is another login's.
    """
    query = text("SELECT current_user::text, has_table_privilege(current_user, :name, :right)")
    with ledger.reading() as connection:
        if connection.dialect.name != "postgresql":
            return
        for one in NEEDS if role == "all" else (role,):
            for what, table, right in NEEDS[one]:
                login, can = connection.execute(query, {"name": table, "right": right}).one()
                if not can:
                    raise ConfigError(
                        f"[record] url: the login {login!r:.80} may not {what}, which is the work of this {role}",
                        remedy=f"name its own login, a member of acceptd_{one}: acceptd fleet enroll prints it",
                    )
        if role in NOT_FOR:
            _require_name(connection, name)


def _require_name(connection: Connection, name: str) -> None:
    """Raise ConfigError where another login writes under a node's name: the database refuses this one."""
    if connection.execute(text("SELECT to_regclass('public.fleet_logins')")).scalar() is None:
        return  # rights of a version before
    query = text("SELECT login, session_user::text FROM fleet_logins WHERE node = :name AND login <> session_user")
    if found := connection.execute(query, {"name": name}).first():
        raise ConfigError(
            f"[record] url: the login {found[1]!r:.80} may not write as the node {name!r:.80}: "
            f"that name is the login {found[0]!r:.80}'s",
            remedy="name that login in [record] url, give the node another name ([fleet] name), or, where this "
            f"login is to have the name from now on: acceptd fleet forget {name} with the promoter's state",
        )


def may(connection: Connection) -> list[str]:
    """Return what of :data:`POWERS` the login of this connection has; nothing on another engine."""
    if connection.dialect.name != "postgresql":
        return []
    query = text("SELECT has_table_privilege(current_user, :name, :right)")
    return [
        what
        for what, (table, right) in POWERS.items()
        if connection.execute(query, {"name": table, "right": right}).scalar()
    ]


def warn_of_login(ledger: Ledger, role: Role) -> str:
    """Warn of a database login that can do more than its role needs; return that in words, empty: it cannot.

    A warning, since it promotes nothing by itself: entries count with a signature of the ledger's key, which is
    not here. But it could make trouble for all others.
    """
    if role not in NOT_FOR:
        return ""
    with ledger.reading() as connection:
        much = [what for what in may(connection) if what in NOT_FOR[role]]
    if not much:
        return ""
    words = f"the database login of this {role} may {' and '.join(much)}"
    log.error(
        "the database login may do too much",
        may=" and ".join(much),
        remedy=f"give it the role acceptd_{role} of the database (docs/fleet.md)",
    )
    return words
