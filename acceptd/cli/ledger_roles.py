"""``acceptd ledger roles``: who may do what in the record's database on PostgreSQL."""

from __future__ import annotations

import textwrap
from typing import Annotated

import typer

from acceptd.cli.common import EXIT_AUDIT, StateOption, chosen_state, console
from acceptd.config import require_state
from acceptd.record.place import Place, require_roles
from acceptd.report.escape import line


def roles(
    grant: Annotated[
        bool, typer.Option("--grant", help="Make the roles and give each its rights. As the owner of the tables.")
    ] = False,
    state: StateOption = None,
) -> None:
    """Compare the rights of promoter, intake, worker and reviewer in the database. Exit 5 where they differ."""
    paths = require_state(chosen_state(state))
    place = Place.of(paths.state)
    require_roles(place)  # before the driver is imported: a single machine has none
    from acceptd.record.postgres import roles as office

    out = console()
    if grant:
        made = office.grant(place)
        for name in made:
            out.print(f"made {name}")
        if made:
            out.print("None of them has a login: CREATE ROLE node_7 LOGIN IN ROLE acceptd_worker")
    found = office.differences(place)
    for one in found:
        out.print(line(f"differs: {one}"), markup=False, soft_wrap=True)
    for role, rights in office.RIGHTS.items() if not found else ():
        adds = sorted(table for table, wanted in rights.items() if set(wanted) - {"SELECT"})
        words = f"reads {len(rights)} tables, writes {', '.join(adds) or 'none'}"
        for number, text in enumerate(textwrap.wrap(words, 60)):
            out.print(f"{'' if number else role:16}  {text}")
    raise typer.Exit(EXIT_AUDIT if found else 0)
