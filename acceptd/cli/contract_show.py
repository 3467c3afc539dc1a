"""``acceptd contract show``, ``list``, ``history``: what is in force, who signed it, and what it was before."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from acceptd.cli.common import JsonOption, StateOption, console
from acceptd.cli.contract_office import STYLES, ModelArgument, Office, app, model_of, office, version_entry
from acceptd.cli.tables import print_table
from acceptd.contract_facts import ContractStanding
from acceptd.contracts import propose as proposals
from acceptd.contracts.difference import changes
from acceptd.contracts.effective import Agreed, place_of, sources
from acceptd.contracts.force import in_force
from acceptd.contracts.version import payload_of
from acceptd.errors import ConfigError, LedgerError, LoaderError, UsageError
from acceptd.judge import contracts as judged
from acceptd.policy.contract import Contract
from acceptd.policy.load import load_file
from acceptd.record.entry import Entry, utc_now
from acceptd.report.escape import line
from acceptd.rules import Rules


@app.command("show")
def show(
    model: ModelArgument,
    whole: Annotated[
        bool, typer.Option("--effective", help="Every value that holds, and where it is from.")
    ] = False,
    toml: Annotated[bool, typer.Option("--toml", help="As its author wrote it, as a TOML file.")] = False,
    version: Annotated[str, typer.Option("--version", help="A version on record, not the one in force.")] = "",
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print the contract that a model is judged by: who signed it, until when it holds, what it says."""
    with office(state) as place:
        agreed = in_force(place.rules, model_of(model), place.ledger)
        own, told = _own(place, model, agreed)
        superseded = False
        if version:
            entry = version_entry(place, model, version)
            superseded = agreed.standing is not None and agreed.standing.entry != entry.seq
            own, agreed = _version(place, entry, agreed)
            told = dict(agreed.standing.inherited) if agreed.standing is not None else {}
        if agreed.contract is None or own is None:
            broken = agreed.standing.reason if agreed.standing is not None else ""
            raise UsageError(
                f"{model} has no contract{f': {broken}' if broken else ''}", remedy="acceptd contract list"
            )
        facts = _facts(place, model, agreed)
        if superseded and facts["status"] == "signed":
            facts["status"] = "superseded"
    if toml:
        head = [f"The contract of {model}, version {own.version}, as it was signed or lies in its file."]
        typer.echo(proposals.text_of(own, head), nl=False)
        return
    rows = _rows(agreed.contract, told, place.rules)
    if json_:
        typer.echo(
            json.dumps(facts | {"values": [dict(zip(("key", "value", "from"), row, strict=True)) for row in rows]})
        )
        return
    out = console()
    for key, text in facts.items():
        shown = ", ".join(text) if isinstance(text, list) else text
        if key == "findings":
            for number, one in enumerate(text or ["none"]):
                out.print(f"{'' if number else key:12} {line(one, 2000)}", soft_wrap=True)
            continue
        out.print(f"{key:12} {line(shown if shown not in (None, '') else '-', 2000)}", soft_wrap=True)
    if whole:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for column, ratio in (("key", 5), ("value", 4), ("from", 3)):
            table.add_column(column, overflow="fold", ratio=ratio, style="" if column != "from" else "dim")
        for row in rows:
            table.add_row(*(Text(line(cell, 400)) for cell in row))
        out.print()
        out.print(table)


def _own(place: Office, model: str, agreed: Agreed) -> tuple[Contract | None, dict[str, str]]:
    """Return what the author of the contract in force wrote, and what it inherits."""
    standing = agreed.standing
    if agreed.contract is None or standing is None:
        return None, {}
    if standing.status in {"signed", "edited"} and standing.entry is not None:
        opened = payload_of(place.ledger.entry(standing.entry).body.get("envelope"))
        return opened.own, dict(standing.inherited)
    return load_file(place_of(place.rules.directory, model)), dict(standing.inherited)


def _version(place: Office, entry: Entry, now: Agreed) -> tuple[Contract, Agreed]:
    """Return what the author of a version on record wrote, and the version with its own signers, not today's."""
    opened = payload_of(entry.body.get("envelope"))
    if now.standing is not None and now.standing.entry == entry.seq:
        standing = now.standing.model_copy(update={"inherited": sources(opened.said.inherited)})
        return opened.own, Agreed(opened.effective, opened.said.digest, standing)
    standing = ContractStanding(
        status="signed",
        version=opened.said.version,
        entry=entry.seq,
        digest=opened.said.digest,
        inherited=sources(opened.said.inherited),
    )
    try:
        signed = place.register.read(entry)
    except (LoaderError, LedgerError) as error:
        told = {"status": "unverified", "reason": f"version {opened.said.version} on record: {error}"[:4000]}
        return opened.own, Agreed(opened.effective, opened.said.digest, standing.model_copy(update=told))
    known = {"signers": signed.people, "tightens": signed.tightens}
    return opened.own, Agreed(opened.effective, opened.said.digest, standing.model_copy(update=known))


def _facts(place: Office, model: str, agreed: Agreed) -> dict[str, Any]:
    contract, standing = agreed.contract, agreed.standing
    assert contract is not None
    found = judged.findings(model, contract, place.rules.policy, standing, utc_now())
    return {
        "model": model,
        "version": contract.version,
        "status": standing.status if standing is not None else "",
        "digest": agreed.digest,
        "entry": standing.entry if standing is not None else None,
        "signers": [f"{one.name} ({one.team})" for one in standing.signers] if standing is not None else [],
        "valid_until": contract.valid_until,
        "file": standing.place if standing is not None else "",
        "findings": [f"{one.severity} {one.code}: {one.message}" for one in found],
    }


def _rows(contract: Contract, told: dict[str, str], rules: Rules) -> list[tuple[str, str, str]]:
    """Return (key, value, where it is from) of all that holds; tolerances that nobody gave are the policy's."""
    rows: list[tuple[str, str, str]] = []

    def add(key: str, value: object, source: str = "") -> None:
        rows.append((key, _plain(value), source or told.get(key, "the contract")))

    document = proposals.lean(contract)
    models = document.pop("models")
    for key in ("preprocessing_sha256", "label_schema_version", "valid_until", "max_rtol", "max_atol"):
        if document.get(key) is not None:
            add(key, document[key])
    for name, bounds in document["dims"].items():
        add(f"dims.{name}", bounds)
    for name, value in document["ceilings"].items():
        add(f"ceilings.{name}", value)
    for number, model in enumerate(models):
        place = f"models[{number}]"
        for key in ("name", "ir_version", "opsets"):
            if model.get(key) is not None:
                add(f"{place}.{key}", model[key])
        for part in ("inputs", "outputs"):
            for index, port in enumerate(model[part]):
                tolerance = port.pop("tolerance", None)
                add(f"{place}.{part}[{index}]", port)
                if part == "outputs":
                    usual = rules.policy.parity.of(port["kind"]).model_dump(mode="json", exclude_none=True)
                    name = f"{place}.{part}[{index}].tolerance"
                    add(name, tolerance or usual, "" if tolerance else f"policy {rules.policy.name}")
        for part in ("heldout", "quality"):
            for index, one in enumerate(model.get(part) or ()):
                add(f"{place}.{part}[{index}]", one)
    return rows


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items() if item not in (None, {}, []))
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value[:16]))}{', …' if len(value) > 16 else ''}]"
    return str(value)


@app.command("list")
def list_(state: StateOption = None, json_: JsonOption = False) -> None:
    """Print every model with a contract, a file's or a signed one, and its standing."""
    with office(state) as place:
        rows = [_listed(place, model) for model in _models(place)]
    if json_:
        typer.echo(json.dumps(rows, sort_keys=True))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("model", "version", "status", "signers", "valid until", "what to know"):
        table.add_column(column, overflow="fold", no_wrap=column in {"model", "version", "status"})
    for row in rows:
        end = str(row["valid_until"] or "-")[:10]
        cells = (row["model"], row["version"] or "-", row["status"], ", ".join(row["signers"]) or "-", end)
        told = "\n".join(line(one, 300) for one in row["findings"]) or "-"
        table.add_row(*(Text(line(cell, 300)) for cell in cells), Text(told))
    console().print(table if rows else "no model has a contract")


def _models(place: Office) -> list[str]:
    files = (place.rules.directory / "contracts").glob("*/*.toml")
    found = {f"{path.parent.name}/{path.stem}" for path in files}
    found |= {str(entry.body.get("model")) for entry in place.register.entries()}
    return sorted(model for model in found if not model.startswith("defaults/"))


def _listed(place: Office, model: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "model": model,
        "version": None,
        "status": "refused",
        "signers": [],
        "valid_until": None,
    }
    try:
        agreed = in_force(place.rules, model, place.ledger)
    except (ConfigError, ValueError) as error:
        return row | {"findings": [error.message if isinstance(error, ConfigError) else str(error)]}
    standing, contract = agreed.standing, agreed.contract
    found = judged.findings(model, contract, place.rules.policy, standing, utc_now())
    return row | {
        "version": contract.version if contract is not None else None,
        "status": standing.status if standing is not None else "none",
        "signers": [one.name for one in standing.signers] if standing is not None else [],
        "valid_until": contract.valid_until if contract is not None else None,
        "findings": [f"{one.severity} {one.code}" for one in found],
    }


@app.command("history")
def history(model: ModelArgument, state: StateOption = None, json_: JsonOption = False) -> None:
    """Print the versions of a model's contract on record, newest first, and what each changed."""
    with office(state) as place:
        entries = place.register.entries(model_of(model))
        rows = [_recorded(place, entry, before) for before, entry in zip([None, *entries], entries, strict=False)]
    rows.reverse()
    if json_:
        typer.echo(json.dumps(rows, sort_keys=True))
        return
    lines = []
    for row in rows:
        signed = row["problem"] or ", ".join(row["signers"])
        first = (row["version"], row["entry"], row["at"][:10], row["digest"][:12])
        lines.append((*first, signed, row["changes"], row["reason"]))
    columns = ("version", "entry", "on", "digest", "signed by", "changes", "reason")
    print_table(console(), columns, lines, empty=f"no version of the contract of {model} is signed")


def _recorded(place: Office, entry: Entry, before: Entry | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "version": entry.body.get("version"), "entry": entry.seq, "at": entry.at, "signers": [], "problem": "",
        "digest": str(entry.body.get("digest")), "reason": entry.body.get("reason"), "changes": "first version",
    }  # fmt: skip
    try:
        signed = place.register.read(entry)
        if before is not None:
            found = changes(payload_of(before.body.get("envelope")).effective, signed.opened.effective)
            words = [f"{sum(one.tendency == word for one in found)} {word}" for word in STYLES]
            row["changes"] = ", ".join(word for word in words if not word.startswith("0 ")) or "none"
        row["signers"] = [one.name for one in signed.people]
    except (LoaderError, LedgerError) as error:
        row["problem"] = f"does not verify: {error}"
    return row
