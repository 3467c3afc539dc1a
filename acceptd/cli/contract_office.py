"""What the commands of ``acceptd contract`` share: the instance, and how contracts are named and shown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from acceptd.cli.common import chosen_state, console
from acceptd.config import load_settings, policies_directory, require_state
from acceptd.contracts.difference import Change
from acceptd.contracts.effective import effective
from acceptd.contracts.register import Register
from acceptd.contracts.version import MAX_BYTES, payload_of, read
from acceptd.errors import UsageError
from acceptd.policy.contract import Contract
from acceptd.policy.load import load_file, load_reviewers
from acceptd.policy.names import valid_model_id
from acceptd.policy.trusted import read_trusted
from acceptd.record.entry import Entry
from acceptd.record.log import Ledger
from acceptd.report.escape import line
from acceptd.rules import Rules, load_rules

app = typer.Typer(help="Contracts: propose, diff, sign, install, supersede, show, list.", no_args_is_help=True)
ModelArgument = Annotated[str, typer.Argument(help="A model id: team/name.")]
STYLES: Final = {"looser": "bold red", "tighter": "green", "other": "yellow"}


@dataclass(frozen=True, slots=True)
class Office:
    """One instance: its rules, its ledger, and the versions in it."""

    rules: Rules
    ledger: Ledger
    register: Register


@contextmanager
def office(state: Path | None) -> Iterator[Office]:
    """Open the state for reading."""
    paths = require_state(chosen_state(state))
    rules = rules_of(paths.state)
    with Ledger.open(paths.state, create=False) as ledger:
        yield Office(rules, ledger, Register(ledger, load_reviewers(rules.directory)))


def rules_of(state: Path) -> Rules:
    settings = load_settings(state)
    return load_rules(policies_directory(settings), settings.policy)


def model_of(model: str) -> str:
    try:
        return valid_model_id(model)
    except ValueError as error:
        raise UsageError(str(error), remedy="write it as team/name") from error


def print_changes(found: Sequence[Change]) -> None:
    """Print changes, the loosening ones first and loud."""
    out = console()
    for change in found:
        word = change.tendency.upper() if change.tendency == "looser" else change.tendency
        shown = Text(f"{word:8} ", style=STYLES[change.tendency])
        out.print(shown.append(line(change.text(), 4000), style=""), soft_wrap=True)
    counts = {word: sum(change.tendency == word for change in found) for word in STYLES}
    out.print(", ".join(f"{count} {word}" for word, count in counts.items()) if found else "no difference")


def read_contract(path: Path, state: Path) -> Contract:
    """Return the effective contract of a file: a contract's own, bytes to sign, or a signed version."""
    content = read_trusted(path, MAX_BYTES * 2, "a contract, or a prepared or signed one")
    if content.lstrip()[:1] != b"{":
        rules = rules_of(state)
        return effective(load_file(path), rules.directory, rules.policy).whole
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path}: neither a contract nor a prepared or signed one",
            remedy="name a contract's TOML, or what `acceptd contract sign` wrote",
        ) from error
    signed = isinstance(document, dict) and "payload" in document
    return (payload_of(document) if signed else read(content)).effective


def version_entry(place: Office, model: str, number: str) -> Entry:
    found = [entry for entry in place.register.entries(model) if str(entry.body.get("version")) == number]
    if not found:
        raise UsageError(
            f"{model} has no version {number!r:.40}", remedy=f"see `acceptd contract history {model}`"
        )
    return found[-1]
