"""``acceptd daemon``: watches the inbox until it is told to stop."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from acceptd.cli.common import StateOption, chosen_state
from acceptd.config import load_settings, require_state
from acceptd.errors import ConfigError
from acceptd.fleet.settings import FleetTable, Role
from acceptd.report.logs import processors

if TYPE_CHECKING:
    from acceptd.site import Helm, Site


def daemon(
    state: StateOption = None,
    policy: Annotated[str, typer.Option("--policy", help="A policy's name, or a file.")] = "",
    role: Annotated[
        Role | None,
        typer.Option("--role", help="What this node of a fleet is; else as acceptd.toml says in its table fleet."),
    ] = None,
    log_json: Annotated[bool, typer.Option("--log-json/--log-text", help="How to log (standard error).")] = True,
) -> None:
    """Watch the inbox, judge what arrives, promote what is accepted. SIGTERM stops in order."""
    state = chosen_state(state)
    settings = load_settings(state)
    if role is not None and (settings.fleet is not None or role != "all"):
        settings = settings.model_copy(
            update={"fleet": (settings.fleet or FleetTable()).model_copy(update={"role": role})}
        )
    paths = require_state(state, settings)
    if policy:
        settings = settings.model_copy(update={"policy": policy})
    fleet = settings.fleet
    named = {"node": fleet.node, "role": fleet.role} if fleet is not None else {}
    configure_logging(settings.log_level, as_json=log_json, always=named)
    gc.disable()  # as for the command itself; the daemon collects, freezes and goes on when it is ready
    from acceptd.daemon import Daemon

    gc.enable()
    one = Daemon(paths, settings) if fleet is None else Daemon(paths, settings, _node(fleet.role))
    one.install_signals()
    one.run()


def _node(role: Role) -> Callable[[Helm], Site]:
    """Return what makes the site of a node; the fleet's libraries are loaded here and not before."""
    try:
        from acceptd.fleet.sites.site import FleetSite
    except ImportError as error:
        raise ConfigError(
            f"a node of a fleet needs what is not installed: {error.name}",
            remedy="install acceptd with its extra: acceptd[fleet]",
        ) from error
    return partial(FleetSite, role=role)


class _StandardError:
    """Where the log goes. It never fails: a full disk or a closed pipe behind it stops no submission."""

    def write(self, text: str) -> None:
        """Write at once, past the buffer of ``sys.stderr``, which would keep what could not be written."""
        with contextlib.suppress(OSError):
            os.write(2, text.encode("ascii", "backslashreplace"))

    def flush(self) -> None:
        """Nothing is kept back."""


def configure_logging(level: str, *, as_json: bool, always: Mapping[str, str] | None = None) -> None:
    """Set structlog up: one JSON object a line, no tensors, no raw names of submitters; ``always`` is on each."""
    structlog.configure(
        processors=processors(as_json=as_json, always=always),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(_StandardError()),  # type: ignore[arg-type]
        cache_logger_on_first_use=True,
    )
