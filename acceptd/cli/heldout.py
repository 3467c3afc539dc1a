"""``acceptd policy heldout``: put held-out vectors where no submission reaches, and look what is there."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from acceptd.cell.blobs import closing_blob
from acceptd.cli.common import JsonOption, StateOption, chosen_state, console, counted, existing
from acceptd.config import load_settings, policies_directory, require_state
from acceptd.contracts.force import in_force
from acceptd.errors import ConfigError, UsageError
from acceptd.heldout import place
from acceptd.policy.names import valid_model_id
from acceptd.record import evaluations
from acceptd.record.log import Ledger
from acceptd.report.escape import line
from acceptd.rules import load_rules

app = typer.Typer(help="Held-out vectors of contracts.", no_args_is_help=True)
ModelArgument = Annotated[str, typer.Argument(help="The model's id, <team>/<model>.")]


@app.command("add")
def add(
    model: ModelArgument,
    directory: Annotated[
        Path, typer.Argument(help="The directory that holds the sets, each a directory or .npz.")
    ],
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Copy sets into the state directory and print the lines for the contract. The originals stay."""
    paths = require_state(chosen_state(state))
    kept = place.add(paths.heldout, model, existing(directory, "the directory"))
    if json_:
        document = {"sha256": kept.digest, "sets": list(kept.sets), "files": kept.files, "bytes": kept.bytes}
        typer.echo(json.dumps(document, sort_keys=True))
        return
    out = console()
    out.print(
        f"# {counted(len(kept.sets), 'set')}, {counted(kept.files, 'file')}, {kept.bytes} bytes."
        " Under the [[models]] they belong to;"
    )
    out.print("# raise `version` of the contract, which begins a new count of evaluations.")
    out.print("[[models.heldout]]")
    # JSON's strings are TOML's.
    out.print(f"sets = {json.dumps([line(one, 1024) for one in kept.sets])}", soft_wrap=True)
    out.print(f'sha256 = "{kept.digest}"')


@app.command("show")
def show(model: ModelArgument, state: StateOption = None, json_: JsonOption = False) -> None:
    """Print what is kept for a model, whether its contract's sets are whole, and the evaluations spent."""
    try:
        valid_model_id(model)
    except ValueError as error:
        raise UsageError(str(error), remedy="give <team>/<model>, as the contract's id") from error
    paths = require_state(chosen_state(state))
    document: dict[str, Any] = {"model": model, "kept": place.versions(paths.heldout, model), "contract": None}
    settings = load_settings(paths.state)
    rules = load_rules(policies_directory(settings), settings.policy)
    with Ledger.open(paths.state, create=False) as ledger:
        contract = in_force(rules, model, ledger).contract  # as the daemon: an edited file is not in force
        used = evaluations.spent(ledger, contract) if contract is not None else 0
    if contract is not None and contract.holds_out:
        document["contract"] = {"version": contract.version, "spent": used, "sets": [], "problem": ""}
        with tempfile.TemporaryDirectory(dir=paths.temporary) as folder, closing_blob(Path(folder)) as blob:
            try:
                document["contract"]["sets"] = sorted(place.pack(paths.heldout, contract, blob).names.values())
            except ConfigError as error:
                document["contract"]["problem"] = str(error)
    if json_:
        typer.echo(json.dumps(document, sort_keys=True))
        return
    out = console()
    for one in document["kept"]:
        out.print(f"kept      {one}")
    found = document["contract"]
    if found is None:
        out.print("contract  names no held-out sets, or there is none")
        return
    out.print(f"contract  version {found['version']}: {counted(found['spent'], 'evaluation')} spent")
    out.print(f"sets      {line(found['problem'] or ', '.join(found['sets']), 2000)}", soft_wrap=True)
