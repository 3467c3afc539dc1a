"""Entry point: assembles the commands, turns errors into exit codes. Imports stay lazy, for a fast start."""

from __future__ import annotations

import gc
import importlib
import os
import resource
import signal
import sys

import typer

from acceptd import __version__, first_word, powers
from acceptd.cli import common
from acceptd.cli.outline import HELP, PARTS
from acceptd.errors import AcceptdError, LoaderError, SealError, UserError

_INTERRUPTED = 130
app = typer.Typer(
    name="acceptd",
    help="The gate that every ONNX model passes before production.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"acceptd {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """The gate that every ONNX model passes before production."""


_COMMANDS = {
    "init": ("setup", "init"),
    "daemon": ("daemon", "daemon"),
    "check": ("check", "check"),
    "check-changed": ("changed", "check_changed"),
    "submit": ("submit", "submit"),
    "status": ("status", "status"),
    "report": ("report", "report"),
    "observe": ("observe", "observe"),
    "adopt": ("adopt", "adopt"),
    "doctor": ("doctor", "doctor"),
    "gc": ("gc", "gc"),
    "backup": ("backup", "backup"),
    "restore": ("backup", "restore"),
    "selftest": ("selftest", "selftest"),
    "verify": ("verify", "verify"),
    "reaccept": ("reaccept", "reaccept"),
    "web": ("web", "web"),
}
_GROUPS = (
    "ledger",
    "release",
    "review",
    "policy",
    "profile",
    "key",
    "contract",
    "loader",
    "advisory",
    "config",
    "fleet",
    "bundle",
    "schema",
)
_NAMES = frozenset({*_COMMANDS, *_GROUPS})


def _assemble(wanted: str) -> None:
    """Register the command ``wanted`` alone, or all where it is none: an import costs more than the parsing."""
    known = wanted in _NAMES
    for name, (module, function) in _COMMANDS.items():
        if not known or name == wanted:
            app.command(name)(getattr(importlib.import_module(f"acceptd.cli.{module}"), function))
    for name in _GROUPS:
        if not known or name == wanted:
            app.add_typer(importlib.import_module(f"acceptd.cli.{name}").app, name=name)


def _list() -> None:
    """Register every command by its name and its first words, for a list of them, without an import."""
    for name in _COMMANDS:
        app.command(name, help=HELP.get(name))(_named_only)
    for name in _GROUPS:
        app.add_typer(_outlined(name), name=name)


def _outlined(name: str) -> typer.Typer:
    """Return a group with the names and first words of its commands, without an import."""
    group = typer.Typer(help=HELP.get(name))
    for part, words in PARTS.get(name, {"": ""}).items():
        group.command(part, help=words)(_named_only)
    return group


def _named_only() -> None:
    """Stand for a command in the list of all; only what is asked for is imported, and then there is no list."""


def _choose() -> None:
    """Register what the command line is about: one command, or the names of all where none is chosen yet.

    A shell that completes (``_ACCEPTD_COMPLETE``) gives the line in a variable, its last word unfinished.
    """
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    completing = "_ACCEPTD_COMPLETE" in os.environ
    if completing:
        given = os.environ.get("COMP_WORDS", os.environ.get("_TYPER_COMPLETE_ARGS", ""))
        words = [*given.split(), *([""] if given[-1:].isspace() else [])][1:]
    first = words[0] if len(words) > completing else ""
    if completing and len(words) == 2 and first in PARTS:
        app.add_typer(_outlined(first), name=first)
    elif first in _NAMES:
        _assemble(first)
    else:
        _list()


def main() -> None:
    """Run the command line; every deliberate error is one line and a documented exit code."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    # Keys, held-out vectors and what teams dropped are in our memory, or in a child's: none of it in a core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    powers.keep_to_oneself()
    if sys.argv[1:2] == ["check"] and "--help" not in sys.argv:
        from acceptd.intake import child

        child.begin()  # it gets ready while the command is imported
    try:
        _choose()
        gc.freeze()  # what is loaded stays
        gc.enable()
        if signal.getsignal(signal.SIGINT) not in {signal.SIG_IGN, signal.default_int_handler}:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # loaded: from here on it is caught below
        first_word.loaded(sys.argv[1:])
        result = app(standalone_mode=False, prog_name="acceptd")
        code = result if isinstance(result, int) else 0
        if code == _INTERRUPTED:  # typer makes this of a Ctrl-C, and says nothing
            common.fail("interrupted", code=code)
    except (typer.Abort, KeyboardInterrupt):
        code = common.fail("interrupted", code=_INTERRUPTED)
    except typer.TyperException as error:
        message = error.format_message()
        if message.startswith("Usage:"):  # no command at all: the help, not an error line
            first_word.unsay()
            try:
                typer.echo(message)
            except BrokenPipeError:
                _unheard()
            code = common.EXIT_USAGE
        else:
            command = getattr(getattr(error, "ctx", None), "command_path", "acceptd")
            code = common.fail(message, f"see {command} --help")
    except UserError as error:
        where = f"{error.where}: " if isinstance(error, SealError) and error.where else ""
        code = common.fail(f"{where}{error.message}", error.remedy, code=error.exit_code)
    except LoaderError as error:
        code = common.fail(str(error), code=common.EXIT_AUDIT)
    except AcceptdError as error:
        code = common.fail(str(error), code=error.exit_code)
    except SystemExit as ended:
        # typer ends with 1 where nobody reads any more, and that is the word for rejected
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        _unheard()
        code = common.EXIT_INTERNAL  # what was to be said was not heard: no verdict's code, whatever the verdict
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        # A path that somebody gave, or one below the state, is theirs to mend.
        code = common.fail(
            f"{where}{error.strerror or error}",
            "check the path, its permissions and the free space",
            code=common.EXIT_USAGE if error.filename else common.EXIT_INTERNAL,
        )
    except Exception as error:
        if os.environ.get("ACCEPTD_TRACEBACK"):
            raise
        code = common.fail(*_unforeseen(error), code=common.EXIT_INTERNAL)
    sys.exit(code)


def _unheard() -> None:
    """Let what is left to be said go nowhere: at its end Python would try, and fail, once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unforeseen(error: Exception) -> tuple[str, str]:
    """Return what is said of an error that nobody raised on purpose: of a fault of ours, or what ran out."""
    if isinstance(error, MemoryError):
        return "out of memory", "let this process have more: ulimit -v, MemoryMax, the machine's own"
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return "no thread could be started", "let there be more processes, or memory: TasksMax, ulimit -u and -v"
    return f"internal error: {type(error).__name__}: {error}", "run again with ACCEPTD_TRACEBACK=1 and report it"


if __name__ == "__main__":
    main()
