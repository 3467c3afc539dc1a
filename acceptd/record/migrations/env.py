"""What alembic runs around the revisions: on the connection, and in the transaction, that it is given."""

from __future__ import annotations

from typing import Any, Final

from alembic import context
from sqlalchemy import Connection, text

_NOTE: Final = text("UPDATE meta SET value = :version WHERE key = 'schema_version'")


def _noted(ctx: Any, step: Any, heads: Any, run_args: Any) -> None:  # noqa: ARG001 - alembic passes them by name
    """Write the revision's number where every version of acceptd looks, those before alembic included."""
    ctx.connection.execute(_NOTE, {"version": str(int(step.up_revision_id))})


def _run() -> None:
    connection = context.config.attributes["connection"]
    assert isinstance(connection, Connection)
    assert connection.in_transaction(), "a migration without a transaction could end half-way"
    context.configure(connection=connection, transaction_per_migration=True, on_version_apply=_noted)
    with context.begin_transaction():
        context.run_migrations()


_run()
