"""``acceptd review``: what waits for a person, and what people decide. Digests and ids, never a model's text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from acceptd.cli.common import JsonOption, StateOption, console, read_limited, write_new
from acceptd.cli.release_office import whole_digest
from acceptd.cli.review_office import Office, carry_out, enter, opened
from acceptd.cli.tables import print_table
from acceptd.errors import MalformedError, UsageError
from acceptd.record.entry import Entry, utc_now
from acceptd.record.queue import Queue
from acceptd.report.escape import line
from acceptd.report.explain import known_code
from acceptd.review import decision as decisions
from acceptd.review import keys as own
from acceptd.review import revocation
from acceptd.review.decision import Word
from acceptd.review.desk import Desk, expiry

MAX_FILE = 1 << 20
app = typer.Typer(
    help="Decisions of people: list, show, approve, reject, waive, attest, revoke.", no_args_is_help=True
)

SubmissionArgument = Annotated[str, typer.Argument(help="A submission's id, or the beginning of one.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; it is signed, and goes into the ledger.")]
KeyOption = Annotated[Path | None, typer.Option("--key", help="Your private key: sign here and record at once.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Without a key: write the bytes to sign here.")
]
ChannelOption = Annotated[
    str | None, typer.Option("--channel", help="For which channel; without: the policy's `release.channel`.")
]
DaysOption = Annotated[int, typer.Option("--days", min=1, max=366, help="Days until it expires.")]


@app.command("keygen")
def keygen(
    path: Annotated[Path, typer.Argument(help="Where the private key is written (0600).")],
    name: Annotated[str, typer.Option("--name", help="Your name in reviewers.toml.")] = "me",
    team: Annotated[str, typer.Option("--team", help="Your team.")] = "security",
) -> None:
    """Make a key of your own and print the lines for the operator's reviewers.toml."""
    signer = own.make(path)
    out = console()
    out.print("[[reviewers]]")
    for key, value in (("name", name), ("team", team), ("key", own.public_text(signer))):
        out.print(f"{key} = {json.dumps(value)}", soft_wrap=True)


@app.command("list")
def list_(state: StateOption = None, json_: JsonOption = False) -> None:
    """Print the held bundles that wait for a person, and what is missing for each."""
    with opened(state) as office:
        main = office.policy.release.channel
        rows: list[dict[str, Any]] = [
            {
                "submission": row.id,
                "model": entry.body.get("model"),
                "bundle_digest": row.bundle_digest,
                "holds": ", ".join(sorted(office.desk.case(entry).holds)),
                "decisions": len(office.desk.given(entry)),
                "channel": (channel := office.desk.waits_for(entry) or main),
                "standing": office.desk.weigh(entry, channel).reason,
            }
            for row, entry in office.desk.undecided()
        ]
    if json_:
        typer.echo(json.dumps(rows, sort_keys=True))
        return
    lines = [
        (
            *(one["submission"], one["model"], str(one["bundle_digest"])[:12], one["holds"]),
            one["standing"] if one["channel"] == main else f"{one['channel']}: {one['standing']}",
        )
        for one in rows
    ]
    columns = ("submission", "model", "digest", "holds", "standing")
    print_table(console(), columns, lines, empty="nothing waits for a person")


@app.command("show")
def show(submission: SubmissionArgument, state: StateOption = None, json_: JsonOption = False) -> None:
    """Print what a decision about one verdict would bind, and the decisions so far."""
    with opened(state) as office:
        entry = _verdict(office.desk, submission)
        shown = _shown(office, entry)
    if json_:
        typer.echo(json.dumps(shown, sort_keys=True))
        return
    out = console()
    for key, value in shown.items():
        if key != "decisions":
            text = ", ".join(value) if isinstance(value, list) else value
            out.print(f"{key:16} {line(text if text is not None else '-', 400)}", soft_wrap=True)
    for one in shown["decisions"]:
        more = ", ".join([*one["codes"], *one["attestations"]])
        word = f"{one['decision']} {more}".strip()
        out.print(f"entry {one['seq']:<10} {word} by {one['reviewer']} ({one['team']}) until {one['expires_at']}")


def _shown(office: Office, entry: Entry) -> dict[str, Any]:
    body, channel = entry.body, office.policy.release.channel
    given = office.desk.given(entry)
    return {
        "submission": entry.submission,
        "verdict": body.get("verdict"),
        "entry": entry.seq,
        "leaf_hash": entry.leaf_hash.hex(),
        "model": body.get("model"),
        "bundle_digest": body.get("bundle_digest"),
        "policy_digest": body.get("policy_digest"),
        "contract_digest": body.get("contract_digest"),
        "profile_digest": body.get("profile_digest"),
        "evidence_digest": body.get("evidence_digest"),
        "holds": sorted(office.desk.case(entry).holds),
        "channel": channel,
        "standing": office.desk.weigh(entry, channel).reason,
        "decisions": [
            {
                "seq": one.seq,
                "decision": one.decision.decision,
                "reviewer": one.reviewer.name,
                "team": one.reviewer.team,
                "codes": one.decision.codes,
                "attestations": list(one.decision.attestations),
                "channel": one.decision.channel,
                "expires_at": one.decision.expires_at,
                "expired": one.decision.expires_at <= utc_now(),
            }
            for one in given
        ],
    }


@app.command("approve")
def approve(
    submission: SubmissionArgument,
    reason: ReasonOption,
    key: KeyOption = None,
    output: OutputOption = None,
    channel: ChannelOption = None,
    days: DaysOption = 30,
    state: StateOption = None,
) -> None:
    """Approve a held bundle for a channel; it is promoted when enough people did."""
    _decide("approve", submission, reason, key, output, channel, days, state)


@app.command("reject")
def reject(
    submission: SubmissionArgument,
    reason: ReasonOption,
    key: KeyOption = None,
    output: OutputOption = None,
    channel: ChannelOption = None,
    days: DaysOption = 366,
    state: StateOption = None,
) -> None:
    """Reject a held bundle: no approval promotes it while this stands."""
    _decide("reject", submission, reason, key, output, channel, days, state)


@app.command("waive")
def waive(
    submission: SubmissionArgument,
    reason: ReasonOption,
    codes: Annotated[list[str], typer.Option("--code", help="A finding code to waive (repeatable).")],
    key: KeyOption = None,
    output: OutputOption = None,
    channel: ChannelOption = None,
    days: DaysOption = 90,
    state: StateOption = None,
) -> None:
    """Waive finding codes for this model until they expire, for later bundles too."""
    _decide("waive", submission, reason, key, output, channel, days, state, codes=tuple(map(known_code, codes)))


@app.command("attest")
def attest(
    submission: SubmissionArgument,
    reason: ReasonOption,
    what: Annotated[
        list[str], typer.Option("--what", help="model_card, prohibited_uses or license (repeatable).")
    ],
    key: KeyOption = None,
    output: OutputOption = None,
    channel: ChannelOption = None,
    days: DaysOption = 366,
    state: StateOption = None,
) -> None:
    """Vouch for something that the policy wants vouched for."""
    _decide("attest", submission, reason, key, output, channel, days, state, attestations=tuple(what))


@app.command("break-glass")
def break_glass(
    submission: SubmissionArgument,
    reason: ReasonOption,
    key: KeyOption = None,
    output: OutputOption = None,
    channel: ChannelOption = None,
    days: DaysOption = 1,
    state: StateOption = None,
) -> None:
    """Promote a held bundle alone, where the policy allows it. Loud everywhere."""
    _decide("break-glass", submission, reason, key, output, channel, days, state)


@app.command("revoke")
def revoke(
    digest: Annotated[
        str, typer.Argument(help="The bundle digest, or its beginning (8 digits or more) where a release has it.")
    ],
    reason: ReasonOption,
    roll_back: Annotated[
        bool, typer.Option("--rollback", help="Also roll back every channel that serves it.")
    ] = False,
    key: KeyOption = None,
    output: OutputOption = None,
    days: DaysOption = 1,
    state: StateOption = None,
) -> None:
    """Revoke a bundle with a reviewer's signature: no loader opens it again."""
    _one_of(key, output)
    with opened(state) as office:
        ledger = office.desk.ledger
        whole = whole_digest(ledger, digest)
        with _said("revoke"):
            made = revocation.about(
                ledger.origin, whole, reason=reason, rollback=roll_back, expires_at=expiry(days)
            )
        payload = revocation.to_sign(made)
        if key is not None:
            enter(office, revocation.sign(payload, own.load(key)))
            return
    _write(output, payload)


@app.command("sign")
def sign(
    path: Annotated[Path, typer.Argument(help="The bytes to sign, as approve, reject, revoke, … wrote them.")],
    key: Annotated[Path, typer.Option("--key", help="Your private key.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the signed decision goes.")],
) -> None:
    """Sign a prepared decision or revocation on your own machine; needs no state."""
    payload = read_limited(path, MAX_FILE, "a prepared decision")
    of = revocation if revocation.is_one(payload) else decisions
    said = of.read(payload)
    write_new(output, (json.dumps(of.sign(payload, own.load(key))) + "\n").encode("ascii"))
    out = console()
    for name, value in said.model_dump(mode="json", by_alias=True).items():
        # Whole: what is signed unseen, a code that is waived behind 400 characters, counts as well.
        out.print(f"{name:16} {line(value, MAX_FILE)}", soft_wrap=True)


@app.command("record")
def record(
    path: Annotated[Path, typer.Argument(help="A signed decision or revocation.")], state: StateOption = None
) -> None:
    """Put a signed decision or revocation on record, and carry it out where that is enough."""
    try:
        envelope = json.loads(read_limited(path, MAX_FILE, "a signed decision"))
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"{path}: no signed decision") from error
    with opened(state) as office:
        enter(office, envelope)


def _decide(
    word: Word,
    submission: str,
    reason: str,
    key: Path | None,
    output: Path | None,
    channel: str | None,
    days: int,
    state: Path | None,
    *,
    codes: tuple[str, ...] = (),
    attestations: tuple[str, ...] = (),
) -> None:
    _one_of(key, output)
    with opened(state) as office:
        entry = _verdict(office.desk, submission)
        name = office.policy.channel(channel or office.policy.release.channel).name
        with _said(word):
            made = decisions.about(
                entry,
                office.desk.ledger.origin,
                word,
                channel=name,
                reason=reason,
                expires_at=expiry(days),
                codes=codes,
                attestations=attestations,
            )
        payload = decisions.to_sign(made)
        if key is not None:
            enter(office, decisions.sign(payload, own.load(key)))
            return
    _write(output, payload)


@contextmanager
def _said(word: str) -> Iterator[None]:
    """What cannot be meant is a wrong word of who types it, not a signed file that does not verify."""
    try:
        yield
    except MalformedError as error:
        raise UsageError(str(error), remedy=f"see acceptd review {word} --help") from error


def _one_of(key: Path | None, output: Path | None) -> None:
    if (key is None) == (output is None):
        raise UsageError("give --key to sign here, or --output for the bytes to sign", remedy="one of the two")


def _write(output: Path | None, payload: bytes) -> None:
    assert output is not None
    write_new(output, payload)
    console().print(f"wrote {line(output)}: sign it with `acceptd review sign`, then `acceptd review record`")


@app.command("promote")
def promote(
    submission: SubmissionArgument,
    channel: ChannelOption = None,
    reason: Annotated[str, typer.Option("--reason")] = "decided by people",
    state: StateOption = None,
) -> None:
    """Promote a bundle that people have decided about."""
    with opened(state) as office:
        name = office.policy.channel(channel or office.policy.release.channel).name
        carry_out(office, str(_verdict(office.desk, submission).submission), name, reason)


def _verdict(desk: Desk, wanted: str) -> Entry:
    rows = [row.id for row in Queue(desk.ledger).find() if row.id.startswith(wanted)]
    if len(rows) != 1:
        raise UsageError(f"{len(rows)} submissions begin with {wanted!r}", remedy="see `acceptd review list`")
    return desk.verdict(rows[0])
