"""``acceptd web``: the reviewers' console on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from acceptd.cli.common import StateOption, chosen_state, one_line
from acceptd.config import require_state
from acceptd.errors import UsageError


def web(
    host: Annotated[str, typer.Option("--host", help="The IP address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0: any free one.")] = 8460,
    unix: Annotated[
        Path | None, typer.Option("--unix", help="Listen on this socket file (0600) instead; for `ssh -L`.")
    ] = None,
    origin: Annotated[
        str, typer.Option("--origin", help="The address of a proxy before it: https://console.example.")
    ] = "",
    beyond_loopback: Annotated[
        bool, typer.Option("--beyond-loopback", help="Allow a --host that other machines reach; without TLS.")
    ] = False,
    state: StateOption = None,
) -> None:
    """Serve the reviewers' console; print an address that opens it once."""
    paths = require_state(chosen_state(state))
    try:
        from acceptd.web import serve
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("acceptd"):
            raise
        raise UsageError(
            f"the console needs {error.name}, which is not installed",
            remedy="pip install 'acceptd[web]', or in a checkout `make console`",
        ) from error
    wish = serve.Wish(host, port, unix.absolute() if unix else None, origin, beyond_loopback)
    serve.serve(paths.state, wish, lambda address: typer.echo(f"open {one_line(address)}"))
