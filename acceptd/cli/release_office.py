"""What the commands of ``acceptd release`` share: options, and one instance opened with its rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from acceptd.cli.common import StateOption, chosen_state
from acceptd.cli.sealing import sealing
from acceptd.config import Paths, load_settings, policies_directory, require_state
from acceptd.errors import UsageError
from acceptd.policy.load import load_reviewers
from acceptd.policy.names import valid_model_id
from acceptd.policy.policy import Policy
from acceptd.policy.reviewers import Reviewers
from acceptd.record.log import Ledger
from acceptd.release.book import read_book
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys
from acceptd.review.desk import Desk
from acceptd.rules import load_rules

SHA256_DIGITS = 64
SHORTEST_PREFIX = 8
ModelArgument = Annotated[str, typer.Argument(help="A model id: team/name.")]
ChannelOption = Annotated[
    str | None, typer.Option("--channel", help="The channel; without: the policy's `release.channel`.")
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; it goes into the ledger.")]


@dataclass(frozen=True, slots=True)
class Office:
    """One instance: its state, ledger, keys and rules."""

    paths: Paths
    ledger: Ledger
    keys: ReleaseKeys
    terms: Terms
    policy: Policy
    reviewers: Reviewers

    @property
    def desk(self) -> Desk:
        """Where people's decisions are weighed."""
        return Desk(self.paths.state, self.ledger, self.policy, self.reviewers)

    def channel(self, name: str | None, *, released: bool = False) -> str:
        """Return a channel that the policy knows, its main one without a name.

        ``released``: one that has releases will do too, for what must go on when the policy names it no more.
        Raises UsageError, with the known names.
        """
        wanted = name if name is not None else self.policy.release.channel
        if released and any(channel == wanted for _, channel in read_book(self.ledger).channels):
            return wanted
        return self.policy.channel(wanted).name


@contextmanager
def office(state: StateOption) -> Iterator[Office]:
    """Open the instance of a state directory."""
    paths = require_state(chosen_state(state))
    settings = load_settings(paths.state)
    directory = policies_directory(settings)
    rules = load_rules(directory, settings.policy)
    with sealing(paths.state) as ledger:
        terms = Terms.of(rules.policy)
        keys = ReleaseKeys.load(paths.state, ledger)
        yield Office(paths, ledger, keys, terms, rules.policy, load_reviewers(directory))


def model_of(model: str) -> str:
    """Return a model id; raise UsageError where it is none."""
    try:
        return valid_model_id(model)
    except ValueError as error:
        raise UsageError(str(error), remedy="write it as team/name") from error


def whole_digest(ledger: Ledger, digest: str) -> str:
    """Return the whole digest that ``digest`` begins; a whole one may be of a bundle that was never released."""
    if len(digest) == SHA256_DIGITS:
        return digest
    book = read_book(ledger)
    rows = [row for place in list(book.channels) for row in book.rows(*place)]
    found = {row.digest for row in rows if row.digest.startswith(digest)}
    if len(digest) < SHORTEST_PREFIX or len(found) != 1:
        short = len(digest) < SHORTEST_PREFIX
        raise UsageError(
            f"{digest!r} is shorter than {SHORTEST_PREFIX} digits of a bundle digest"
            if short
            else f"{len(found)} releases have a bundle digest that begins with {digest!r}",
            remedy="give the whole digest: `acceptd report` and `release history --json` show it",
        )
    return found.pop()
