"""``acceptd contract``: propose, compare, and the commands of the modules beside it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from acceptd.cli import contract_show as contract_show
from acceptd.cli import contract_sign as contract_sign
from acceptd.cli.common import JsonOption, StateOption, chosen_state, console, existing, progress_console
from acceptd.cli.contract_office import app as app
from acceptd.cli.contract_office import (
    model_of,
    office,
    print_changes,
    read_contract,
    rules_of,
    version_entry,
)
from acceptd.contracts import propose as proposals
from acceptd.contracts.difference import changes
from acceptd.contracts.force import in_force
from acceptd.contracts.version import payload_of
from acceptd.errors import UsageError
from acceptd.policy.contract import Contract
from acceptd.report.escape import line

EXIT_LOOSER, EXIT_OTHER = 1, 3


@app.command("propose")
def propose(
    bundle: Annotated[
        Path | None,
        typer.Option("--from-bundle", help="A bundle to check here; its manifest is read in the cell."),
    ] = None,
    release: Annotated[
        str, typer.Option("--from-release", help="team/name or team/name@channel: what its verdict has on record.")
    ] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write here, not to standard output.")] = None,
    margin: Annotated[
        float, typer.Option("--margin", min=1.0, max=100.0, help="Budgets are what was measured times this.")
    ] = 1.5,
    state: StateOption = None,
) -> None:
    """Write a commented contract from what was declared and measured, for a person to edit."""
    if (bundle is None) == (not release):
        raise UsageError("give --from-bundle PATH, or --from-release MODEL", remedy="one of the two")
    basis = (
        _of_bundle(chosen_state(state), bundle, margin)
        if bundle is not None
        else _of_release(state, release, margin)
    )
    text = proposals.proposal(basis)
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"{out} exists", remedy="name another file") from error
    console().print(f"wrote {line(out)}: a proposal; look at every line before anybody signs it", soft_wrap=True)


def _of_bundle(state: Path, path: Path, margin: float) -> proposals.Basis:
    from acceptd import local

    rules = rules_of(state)
    place = existing(path, "the bundle")
    local.kind_of(place)  # a wrong path must not first start a cell
    err = progress_console()
    with err.status("starting the cell") as status, local.bench(rules, cores=1, suite=False) as bench:
        outcome = local.examine_one(bench, place, progress=lambda stage: status.update(f"{stage} …"))
    submission, judgement = outcome.submission, outcome.judgement
    manifest = proposals.declared(outcome.manifest, submission.inferred, judgement.reason)
    if judgement.verdict in {"rejected", "inconclusive"}:
        err.print(f"the bundle is {judgement.verdict}: {line(judgement.reason)}", soft_wrap=True)
    digest = submission.sealed.digest if submission.sealed else "none"
    what = f"a check of the bundle {digest[:16]}, which came to: {judgement.verdict}"
    return proposals.Basis(manifest, submission, rules.policy, what, margin, outcome.contract)


def _of_release(state: Path | None, wanted: str, margin: float) -> proposals.Basis:
    from acceptd.release.book import read_book
    from acceptd.replay.stored import NotReplayableError, Shelf

    model, at, channel = wanted.partition("@")
    with office(state) as place:
        channel = channel if at else place.rules.policy.release.channel
        book = read_book(place.ledger)
        row = book.current(model_of(model), channel)
        if row is None:
            raise UsageError(f"{model} has no release on {channel!r:.80}", remedy="see `acceptd release list`")
        if row.digest in book.revoked:
            raise UsageError(
                f"release {row.number} of {model} is revoked: {book.revoked[row.digest].reason}"[:400],
                remedy="roll back first, or propose from another bundle: --from-bundle PATH",
            )
        try:
            stored = Shelf(place.ledger).read(place.ledger.entry(row.verdict_seq))
        except NotReplayableError as error:
            remedy = "propose from the bundle: acceptd contract propose --from-bundle PATH"
            raise UsageError(f"release {row.number} of {model}: {error}", remedy=remedy) from error
        agreed = in_force(place.rules, model, place.ledger)
        what = f"release {row.number} of {model} on {channel}, judged in entry {row.verdict_seq}"
        manifest = proposals.declared(stored.manifest, stored.submission.inferred, "none was recorded")
        return proposals.Basis(manifest, stored.submission, stored.policy, what, margin, agreed.contract)


@app.command("diff")
def diff(
    first: Annotated[str, typer.Argument(help="A file, or team/name (in force), or team/name@VERSION.")],
    second: Annotated[str, typer.Argument(help="The other one.")],
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print what the second contract loosens, tightens or changes. Exit 0 nothing, 1 something looser, 3 other."""
    one, other = (_named(name, state) for name in (first, second))
    found = changes(one, other)
    if json_:
        typer.echo(json.dumps({"changes": [asdict(change) for change in found]}, sort_keys=True))
    else:
        print_changes(found)
    looser = any(change.tendency == "looser" for change in found)
    raise typer.Exit(EXIT_LOOSER if looser else EXIT_OTHER if found else 0)


def _named(name: str, state: Path | None) -> Contract:
    """Return the contract of a file, with what it inherits, or of a version on record."""
    path = Path(name)
    if path.is_file() or name.endswith((".toml", ".json")):
        return read_contract(path, chosen_state(state))
    model, at, number = name.partition("@")
    with office(state) as place:
        if not at:
            agreed = in_force(place.rules, model_of(model), place.ledger)
            if agreed.contract is None:
                raise UsageError(f"{model} has no contract", remedy="see `acceptd contract list`")
            return agreed.contract
        return payload_of(version_entry(place, model_of(model), number).body.get("envelope")).effective
