"""``acceptd daemon``: watches the inbox until it is told to stop."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
from collections.abc import Mapping
from typing import Annotated

import structlog
import typer

from acceptd.cli.common import StateOption, chosen_state
from acceptd.config import load_settings, require_state
from acceptd.report.logs import processors


def daemon(
    state: StateOption = None,
    policy: Annotated[str, typer.Option("--policy", help="A policy's name, or a file.")] = "",
    log_json: Annotated[bool, typer.Option("--log-json/--log-text", help="How to log (standard error).")] = True,
) -> None:
    """Watch the inbox, judge what arrives, promote what is accepted. SIGTERM stops in order."""
    paths = require_state(chosen_state(state))
    settings = load_settings(paths.state)
    if policy:
        settings = settings.model_copy(update={"policy": policy})
    configure_logging(settings.log_level, as_json=log_json)
    gc.disable()  # as for the command itself; the daemon collects, freezes and goes on when it is ready
    from acceptd.daemon import Daemon

    gc.enable()
    one = Daemon(paths, settings)
    one.install_signals()
    one.run()


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
