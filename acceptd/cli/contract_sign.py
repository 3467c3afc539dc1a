"""``acceptd contract sign``, ``install``, ``supersede``: bytes to sign are a file, and so is what was signed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from acceptd.cli.common import StateOption, chosen_state, console, read_limited, write_new
from acceptd.cli.contract_office import app, office, print_changes, rules_of
from acceptd.cli.sealing import sealing
from acceptd.config import require_state
from acceptd.contracts import version as versions
from acceptd.contracts.difference import changes
from acceptd.contracts.effective import effective, place_of
from acceptd.contracts.propose import text_of
from acceptd.contracts.register import Register
from acceptd.contracts.version import Opened
from acceptd.errors import ConfigError, MalformedError, UsageError
from acceptd.intake.files import replace_file
from acceptd.policy.contract import Contract
from acceptd.policy.load import load_file, load_reviewers
from acceptd.report.escape import line
from acceptd.review import keys as own

_LIMIT = versions.MAX_BYTES * 2
SignedArgument = Annotated[list[Path], typer.Argument(help="Signed files: one of each person, same bytes.")]


@app.command("sign")
def sign(
    path: Annotated[Path, typer.Argument(help="A contract file, or the bytes to sign that came of one.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the bytes, or the signed version, go.")],
    key: Annotated[Path | None, typer.Option("--key", help="Your private key. Without: only the bytes.")] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is signed, and goes into the ledger.")] = "",
    state: StateOption = None,
) -> None:
    """Make the bytes of a version from a contract file, or sign bytes on your own machine; that needs no state."""
    content = read_limited(path, _LIMIT, "a contract, or bytes to sign")
    if content.lstrip()[:1] == b"{":
        if key is None:
            raise UsageError(f"{path} holds bytes to sign", remedy="give your private key: --key FILE")
        opened, payload = versions.read(content), content
    else:
        opened = _prepared(path, reason, state)
        payload = versions.to_sign(opened.said)
    if key is not None:
        data = (json.dumps(versions.sign(payload, own.load(key))) + "\n").encode("ascii")
    else:
        data = payload
    write_new(output, data)
    _told(opened)
    word = "signed" if key is not None else "bytes to sign"
    console().print(f"wrote {line(output)}: {word}", soft_wrap=True)


def _prepared(path: Path, reason: str, state: Path | None) -> Opened:
    """Return the version that a contract file would become, and print what it changes."""
    if not reason:
        raise UsageError("a version needs a reason", remedy='--reason "why it changes"')
    with office(state) as place:
        found = effective(load_file(path), place.rules.directory, place.rules.policy)
        before = place.register.newest(found.own.id)
        if before is not None and found.own.version <= before.body["version"]:
            raise UsageError(
                f"{path}: version: is {found.own.version}, and version {before.body['version']} is in force",
                remedy=f"write version = {before.body['version'] + 1}",
            )
        supersedes = before.body["digest"] if before is not None else None
        opened = versions.prepared(found.own, found.values, place.ledger.origin, supersedes, reason)
        if before is not None:
            earlier = versions.payload_of(before.body.get("envelope"))
            print_changes(changes(earlier.effective, opened.effective))
    return opened


def _told(opened: Opened) -> None:
    said, out = opened.said, console()
    shown: dict[str, Any] = {
        "model": said.model, "version": said.version, "digest": said.digest, "supersedes": said.supersedes,
        "log": said.log, "valid_until": opened.own.valid_until, "inherited": len(said.inherited),
        "reason": said.reason,
    }  # fmt: skip
    for name, text in shown.items():
        out.print(f"{name:12} {line('-' if text is None else text, 2000)}", soft_wrap=True)


@app.command("install")
def install(paths: SignedArgument, state: StateOption = None) -> None:
    """Put the first signed version of a model's contract on record: it is in force from there on."""
    _record(paths, state, first=True)


@app.command("supersede")
def supersede(paths: SignedArgument, state: StateOption = None) -> None:
    """Put a later signed version on record, in place of the one in force."""
    _record(paths, state, first=False)


def _record(paths: list[Path], state: Path | None, *, first: bool) -> None:
    envelope = versions.joined([_envelope(path) for path in paths])
    home = require_state(chosen_state(state)).state
    rules = rules_of(home)
    with sealing(home) as ledger:
        register = Register(ledger, load_reviewers(rules.directory))
        before = register.newest(versions.payload_of(envelope).said.model)
        opened, entered = register.install(home, envelope, rules.policy.contracts, first=first)
    out, said = console(), opened.said
    if before is not None:
        print_changes(changes(versions.payload_of(before.body.get("envelope")).effective, opened.effective))
    out.print(f"entry {entered.seq}: {said.model} version {said.version} is in force ({said.digest[:12]})")
    _write(rules.directory, opened)


def _envelope(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_limited(path, _LIMIT, "a signed version"))
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"{path}: no signed version") from error
    if not isinstance(found, dict):
        raise MalformedError(f"{path}: no signed version")
    return found


def _says(place: Path, own: Contract) -> bool:
    """Whether the file is that contract. One that is refused, broken or open to others, says nothing."""
    try:
        return place.is_file() and load_file(place) == own
    except ConfigError:
        return False


def _write(directory: Path, opened: Opened) -> None:
    """Make the model's file say what is in force. The ledger counts: a directory that is not ours is only told."""
    place = place_of(directory, opened.own.id)
    out = console()
    try:
        if _says(place, opened.own):
            out.print(f"{line(place)} says so already", soft_wrap=True)
            return
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        head = [
            f"Version {opened.own.version}, digest {opened.said.digest}.",
            "This is a copy: what reviewers signed is in force, whatever stands here. To change it, edit a copy",
            "with the next version, and have that signed: docs/contracts.md.",
        ]
        replace_file(place.parent, place.name, text_of(opened.own, head).encode("utf-8"))
        out.print(f"wrote {line(place)}", soft_wrap=True)
    except OSError as error:
        told = f"could not be written ({error.strerror}): until it says so, bundles are told that it differs"
        out.print(f"{line(place)} {told}", soft_wrap=True)
        out.print(f"  → acceptd contract show {opened.own.id} --toml", soft_wrap=True)
