"""Releases: what is current where, what is held, what is revoked, and the history of one channel."""

from __future__ import annotations

from typing import Any, Final

from acceptd.errors import ConfigError
from acceptd.release import history as histories
from acceptd.release.holds import Hold
from acceptd.web.asked import Asked
from acceptd.web.blocks import (
    Cell,
    Facts,
    Field,
    Form,
    Links,
    Page,
    Pager,
    Section,
    Table,
    Text,
    digest_cell,
    model_at,
    where,
)
from acceptd.web.house import House, NotHereError, model, name
from acceptd.web.queries import PAGE

_MOST: Final = 200


def releases(house: House, parameters: Any) -> Page:
    """Return the page of current releases, holds and revocations."""
    asked = Asked(parameters, ("team", "channel", "after"))
    team, channel, after = asked.team(), asked.team("channel"), asked.text("after")
    book = house.book()
    places = sorted(
        place
        for place in book.channels
        if (not team or place[0].startswith(f"{team}/"))
        and channel in {"", place[1]}
        and f"{place[0]} {place[1]}" > after
    )
    found = histories.current_releases(house.state, house.ledger, house.auditor(), places=places[:PAGE])
    lines = [
        (
            Cell(row.model_id, model_at(row.model_id)),
            Cell(row.channel, where("releases", *row.model_id.split("/"), row.channel)),
            Cell(row.number, look="number"),
            row.version,
            digest_cell(row.bundle_digest),
            row.expires_at,
            Cell(_state(row), look="bad" if row.problem else ""),
        )
        for row in found
    ]
    given = {"team": team, "channel": channel}
    last = " ".join(places[PAGE - 1]) if len(places) > PAGE else ""
    head = ("Model", "Channel", "Number", "Version", "Bundle digest", "channel.json until", "State")
    held = [*book.holds.all_frozen(), *book.holds.all_pinned()]
    revoked = sorted(book.revoked.values(), key=lambda one: one.seq, reverse=True)
    return Page(
        "Releases",
        [
            Form("/releases", "Filter", [
                Field("team", "Team", team, most=64), Field("channel", "Channel", channel, most=64),
            ]),
            Table("Current releases", head, lines, empty="Nothing is released here."),
            Pager(
                where("releases", after=last, **given) if last else "", where("releases", **given) if after else ""
            ),
            Section("Frozen and pinned", [_holds(held)]),
            Section("Rules of the channels", _rules(house)),
            Section("Revoked", [_revoked(revoked)]),
        ],
        nav="Releases",
    )  # fmt: skip


def _state(row: histories.CurrentRelease) -> str:
    words = [f"frozen: {row.frozen}"] if row.frozen else []
    words += [f"pinned: {row.pinned}"] if row.pinned else []
    return "; ".join([*words, row.problem or "a loader opens it"])


def _rules(house: House) -> list[Any]:
    try:
        rules = house.policy().all_channels()
    except ConfigError as error:
        return [Text(f"The policy cannot be read now: {error}", "bad")]
    rows = [
        (
            rule.name,
            "by itself" if rule.automatic else "by hand",
            Cell(rule.approvals, look="number"),
            f"{rule.after_seconds} s on {rule.after_channel}" if rule.after_channel else "",
            f"{rule.valid_seconds} s",
        )
        for rule in rules
    ]
    head = ("Channel", "Promotes", "Approvals", "Only after", "channel.json lasts")
    return [Table("What the policy in use asks", head, rows)]


def _holds(held: list[Hold]) -> Table:
    rows = [
        (
            one.kind,
            Cell(one.model_id, model_at(one.model_id)) if one.model_id else "all models",
            one.channel,
            digest_cell(one.digest),
            one.at,
            one.by,
            Cell(one.seq, where("ledger", one.seq)),
            one.reason,
        )
        for one in held[-_MOST:]
    ]
    head = ("What", "Model", "Channel", "Bundle digest", "Since", "By", "Entry", "Reason")
    return Table(f"What people hold: {len(rows)} of {len(held)}", head, rows, empty="Nothing is frozen or pinned.")


def _revoked(revoked: list[Any]) -> Table:
    rows = [
        (
            digest_cell(one.digest),
            one.at,
            one.by,
            Cell(one.seq, where("ledger", one.seq)),
            one.reason,
        )
        for one in revoked[:_MOST]
    ]
    caption = f"Revoked bundles, the newest first: {len(rows)} of {len(revoked)}"
    return Table(caption, ("Bundle digest", "At", "By", "Entry", "Reason"), rows, empty="Nothing was revoked.")


def channel_history(house: House, team: str, model_name: str, channel: str, parameters: Any) -> Page:
    """Return the page of what ever happened to one channel of a model."""
    of, channel = model(f"{team}/{model_name}"), name(channel)
    asked = Asked(parameters, ("before",))
    before = asked.number("before")
    if (of, channel) not in house.book().channels:
        raise NotHereError(f"{of} has no release on {channel}", remedy="the page of releases lists what there is")
    found = histories.history(
        house.state, house.ledger, house.auditor(), of, channel, before=before, most=PAGE + 1
    )
    lines = [
        (
            Cell(row.number if row.number is not None else "", look="number"),
            Cell("BROKEN GLASS", look="bad") if row.glass else row.kind,
            row.state,
            row.at,
            digest_cell(row.bundle_digest),
            row.version,
            row.by,
            ", ".join(row.decided),
            Cell(row.intent_seq, where("ledger", row.intent_seq)),
            f"revoked since: {row.revoked}; {row.reason}" if row.revoked else row.reason,
        )
        for row in found[:PAGE]
    ]
    head = ("Number", "What", "State", "At", "Bundle digest", "Version", "By", "Decided by", "Entry", "Reason")
    here = where("releases", *of.split("/"), channel)
    older = f"{here}?before={found[PAGE - 1].intent_seq}" if len(found) > PAGE else ""
    return Page(
        f"{of} on {channel}",
        [
            Links([("The model", model_at(of))]),
            Table("Every number and every hold, newest first", head, lines, empty="Nothing older."),
            Pager(older, here if before is not None else ""),
        ],
        nav="Releases",
        above="History of a channel",
    )


def bundle(house: House, digest: str, parameters: Any) -> Page:
    """Return the page of one bundle by its digest: where it is and was released, and whether it is revoked."""
    Asked(parameters, ())
    book = house.book()
    rows = [
        row
        for place in sorted(book.channels)
        for row in book.rows(*place)
        if row.digest == digest and row.activated_at
    ]
    revoked = book.revoked.get(digest)
    lines = [
        (
            Cell(row.model_id, model_at(row.model_id)),
            Cell(row.channel, where("releases", *row.model_id.split("/"), row.channel)),
            Cell(row.number, look="number"),
            row.state,
            row.activated_at,
        )
        for row in rows[-_MOST:]
    ]
    blocks: list[Any] = [Facts([("Bundle digest", Cell(digest, look="code"))])]
    if revoked is not None:
        blocks.append(Text(f"Revoked at {revoked.at}: {revoked.reason}", "bad"))
    head = ("Model", "Channel", "Number", "State", "Since")
    blocks.append(Table("Where it is and was released", head, lines, empty="It was never released."))
    onward = [("Entries that name it", where("ledger", text=digest))]
    if revoked is None:
        onward.append(("Revoke it", where("releases", "digest", digest, "revoke")))
    blocks.append(Links(onward))
    return Page(f"Bundle {digest[:12]}…", blocks, nav="Releases", above="Bundle")
