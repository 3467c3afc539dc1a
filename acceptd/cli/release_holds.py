"""``acceptd release freeze``, ``unfreeze``, ``pin``, ``unpin``: what people hold, each an entry of the ledger."""

from __future__ import annotations

from typing import Annotated

import typer

from acceptd.cli.common import StateOption, console
from acceptd.cli.release_office import ChannelOption, ModelArgument, ReasonOption, model_of, office
from acceptd.cli.release_words import held_line
from acceptd.errors import UsageError
from acceptd.release import hold as holding
from acceptd.release.who import operator
from acceptd.report.escape import line

OptionalModel = Annotated[str, typer.Argument(help="A model id: team/name.", show_default=False)]
AllModels = Annotated[bool, typer.Option("--all-models", help="The channel of every model, known or not yet.")]
ReleaseOption = Annotated[
    str,
    typer.Option("--release", help="A release number, or a bundle digest or its beginning.", show_default=False),
]


def freeze(
    reason: ReasonOption,
    model: OptionalModel = "",
    all_models: AllModels = False,
    channel: ChannelOption = None,
    state: StateOption = None,
) -> None:
    """Hold a channel: nothing is promoted to it, by hand or by itself, until `unfreeze`.

    Rollback and revoke go on. What is accepted meanwhile stays accepted.
    """
    model_id = _model(model, all_models)
    with office(state) as place:
        name = place.channel(channel, released=True)
        done = holding.freeze(
            place.paths.state, place.ledger, place.keys,
            model_id=model_id, channel=name, reason=reason, by=operator(), terms=place.terms,
        )  # fmt: skip
    word = "frozen" if done.new else "was frozen already"
    out = console()
    out.print(f"{word}: {line(held_line(done.hold), 400)}", markup=False)
    for problem in done.problems:
        out.print(f"  problem: {line(problem)}", markup=False)


def unfreeze(
    reason: ReasonOption,
    model: OptionalModel = "",
    all_models: AllModels = False,
    channel: ChannelOption = None,
    state: StateOption = None,
) -> None:
    """End a freeze. What was accepted meanwhile is promoted by hand, or when its time in another channel comes."""
    model_id = _model(model, all_models)
    with office(state) as place:
        name = place.channel(channel, released=True)
        done = holding.unfreeze(
            place.paths.state, place.ledger, model_id=model_id, channel=name, reason=reason, by=operator()
        )
    console().print(f"unfrozen: {model_id or 'all models'} {name} (entry {done.hold.seq})", markup=False)


def pin(
    model: ModelArgument,
    reason: ReasonOption,
    release: ReleaseOption = "",
    channel: ChannelOption = None,
    state: StateOption = None,
) -> None:
    """Keep a release, or the current one: its bytes stay, and nothing replaces it while it is current.

    Rollback and revoke go on.
    """
    model_id = model_of(model)
    with office(state) as place:
        name = place.channel(channel, released=True)
        done = holding.pin(
            place.paths.state, place.ledger, place.keys,
            model_id=model_id, channel=name, wanted=release, reason=reason, by=operator(), terms=place.terms,
        )  # fmt: skip
    word = "pinned" if done.new else "was pinned already"
    console().print(f"{word}: {line(held_line(done.hold), 400)}", markup=False)


def unpin(
    model: ModelArgument,
    reason: ReasonOption,
    release: ReleaseOption = "",
    channel: ChannelOption = None,
    state: StateOption = None,
) -> None:
    """End the pin of a release, without --release all pins of the channel."""
    model_id = model_of(model)
    with office(state) as place:
        name = place.channel(channel, released=True)
        done = holding.unpin(
            place.paths.state, place.ledger,
            model_id=model_id, channel=name, wanted=release, reason=reason, by=operator(),
        )  # fmt: skip
    for one in done:
        what = f"{model_id} {name} {one.hold.digest[:12]}"
        console().print(f"unpinned: {what} (entry {one.hold.seq})", markup=False)


def _model(model: str, all_models: bool) -> str:
    if bool(model) == all_models:
        raise UsageError("name one model, or give --all-models", remedy="one of the two")
    return "" if all_models else model_of(model)
