"""``acceptd schema``: the JSON Schemas of what people write and of what is signed."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from acceptd.cli.common import JsonOption, console
from acceptd.errors import UsageError
from acceptd.json_schemas import TEXTS, schema_text

app = typer.Typer(help="JSON Schemas of bundle.toml, policies and signed files: list, show.", no_args_is_help=True)


def known(name: str) -> str:
    """Return ``name`` if there is such a schema; raise UsageError with the names otherwise."""
    if name not in TEXTS:
        raise UsageError(f"there is no schema of {name!r}", remedy=f"known are {', '.join(TEXTS)}")
    return name


def names(incomplete: str) -> list[str]:
    """Return the names that a shell may complete."""
    return [name for name in TEXTS if name.startswith(incomplete)]


@app.command("list")
def list_(json_: JsonOption = False) -> None:
    """Print the name and the title of each schema."""
    titles = {name: json.loads(schema_text(name)).get("title", "") for name in TEXTS}
    if json_:
        typer.echo(json.dumps({"schemas": titles}, sort_keys=True))
        return
    out = console()
    for name, title in titles.items():
        out.print(f"{name:18} {title}")


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="One of `acceptd schema list`.", autocompletion=names)],
) -> None:
    """Print one JSON Schema (draft 2020-12), for an editor or another tool."""
    typer.echo(schema_text(known(name)), nl=False)
