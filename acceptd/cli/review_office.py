"""What the commands of ``acceptd review`` share: one instance opened with its people, and what is done in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from acceptd.cli.common import StateOption, chosen_state, console
from acceptd.cli.release_words import print_revoked
from acceptd.cli.sealing import sealing
from acceptd.config import load_settings, policies_directory, require_state
from acceptd.errors import ChannelClosedError
from acceptd.policy.load import load_reviewers
from acceptd.policy.policy import Policy
from acceptd.record.attest import Envelope
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys
from acceptd.release.who import operator
from acceptd.report.escape import line
from acceptd.review import revocation
from acceptd.review.desk import Desk
from acceptd.rules import load_rules


@dataclass(frozen=True, slots=True)
class Office:
    """One instance with the people who may decide, and its rules."""

    desk: Desk
    policy: Policy
    terms: Terms


@contextmanager
def opened(state: StateOption) -> Iterator[Office]:
    """Open the instance of a state directory; what is recorded in it is sealed at the end."""
    paths = require_state(chosen_state(state))
    settings = load_settings(paths.state)
    directory = policies_directory(settings)
    policy = load_rules(directory, settings.policy).policy
    with sealing(paths.state) as ledger:
        desk = Desk(paths.state, ledger, policy, load_reviewers(directory))
        yield Office(desk, policy, Terms.of(policy))


def enter(office: Office, envelope: Envelope) -> None:
    """Put on record what a person has signed, and carry it out where that is enough; print what came of it."""
    if isinstance(envelope, dict) and envelope.get("payloadType") == revocation.REVOCATION_TYPE:
        revoke(office, envelope)
    else:
        decide(office, envelope)


def decide(office: Office, envelope: Envelope) -> None:
    """Put a signed decision on record, and promote where that is enough."""
    desk, out = office.desk, console()
    said, entered = desk.record(envelope)
    out.print(f"entry {entered.seq}: {said.decision} {said.submission} ({said.bundle_digest[:12]})")
    entry = desk.verdict(said.submission)
    weighed = desk.weigh(entry, said.channel)
    out.print(f"standing: {line(weighed.reason)}")
    if said.decision == "reject" or not weighed.allowed:
        return
    if not office.policy.channel(said.channel).automatic and not weighed.broken_glass:
        out.print(f"promote it: acceptd review promote {said.submission} --channel {said.channel}")
        return
    try:
        carry_out(office, said.submission, said.channel, f"{weighed.reason}: {said.reason}"[:500])
    except ChannelClosedError as error:  # the decision is on record all the same
        out.print(line(f"not promoted: {error}", 800), markup=False, soft_wrap=True)


def revoke(office: Office, envelope: Envelope) -> None:
    """Carry out a signed revocation."""
    desk = office.desk
    said, done = revocation.carry_out(desk, ReleaseKeys.load(desk.state, desk.ledger), envelope, office.terms)
    print_revoked(console(), said.bundle_digest, done)


def carry_out(office: Office, submission: str, channel: str, reason: str) -> None:
    """Promote what people have decided about, and print it."""
    keys = ReleaseKeys.load(office.desk.state, office.desk.ledger)
    made = office.desk.carry_out(submission, keys, channel, reason, office.terms, operator())
    console().print(f"{made.model_id} {channel} is now {made.number} ({made.bundle_digest[:12]})")
