"""Which releases words name: a number, a digest or its beginning, a channel, or one of a channel. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from acceptd.errors import ReleaseError, UsageError
from acceptd.release.book import Book, Row

SHOWN: Final = 8
"""Most runs of numbers, or channels, that an error names."""
_NUMBER_OR_DIGEST: Final = re.compile(r"[0-9]{1,7}|[0-9a-f]{8,64}")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two releases, and what is to be said of how they were chosen."""

    first: Row
    second: Row
    notes: tuple[str, ...] = ()


def release_of(book: Book, model_id: str, channel: str, wanted: str) -> Row:
    """Return the newest row that was current once: of a number, a digest or its beginning, or the current one.

    Raises ReleaseError, with the numbers that there are.
    """
    if not wanted:
        current = book.current(model_id, channel)
        if current is None:
            raise ReleaseError(f"{model_id} has no release on {channel}", remedy=_elsewhere(book, model_id))
        return current
    if len(wanted) < 8 and not wanted.isdecimal():
        raise ReleaseError(f"{wanted!r:.80} is too short to name a digest", remedy="give 8 digits or more")
    rows = _once_current(book, model_id, channel)
    found = _matching(rows, wanted)
    if len({row.digest for row in found}) != 1:
        what = f"no release {wanted[:64]!r}" if not found else f"several releases that begin with {wanted[:64]!r}"
        raise ReleaseError(
            f"{model_id} {channel} has {what}: it has {_numbers(rows)}",
            remedy=f"acceptd release history {model_id} --channel {channel}",
        )
    return found[-1]


def pair_of(
    book: Book, model_id: str, *, main: str, given: str | None, known: Collection[str], first: str, second: str
) -> Pair:
    """Return the two releases that two words name, either empty.

    A channel's name is its current release, ``channel/number`` one of it. A number or digest alone belongs to the
    channel that is ``given``, else to the one that the other word names, else to ``main``; what ``main`` lacks, to
    the only channel that has it. Without the second word: the current one of that channel. Without both, or where
    that would be one and the same: the release before. ``known``: names that are channels even without a release.
    Raises UsageError for what can be no such word, ReleaseError where there is no such release.
    """
    names = {name for model, name in book.channels if model == model_id} | set(known)
    words = [_parsed(book, model_id, names, word) for word in (first, second)]
    bare = [wanted for channel, wanted in words if channel is None and wanted]
    named = list(dict.fromkeys(channel for channel, _ in words if channel is not None))
    notes: tuple[str, ...] = ()
    if given is not None:
        home = given
    elif bare and named:
        home = named[0]
    elif bare:
        home, notes = _home(book, model_id, main, bare)
    else:
        home = named[0] if words[0][1] and not second else main
    older, newer = ((channel or home, wanted) for channel, wanted in words)
    current = release_of(book, model_id, *newer)
    if not second and not older[1] and older[0] == newer[0]:
        return Pair(_before(book, model_id, older[0], current), current, notes)
    other = release_of(book, model_id, *older)
    if (other.channel, other.number) == (current.channel, current.number):
        notes += (f"both are one and the same release, {current.channel} {current.number}",)
    return Pair(other, current, notes)


def _parsed(book: Book, model_id: str, names: Collection[str], word: str) -> tuple[str | None, str]:
    """Return (the channel that a word names, the number or digest in it); None and empty where it has none."""
    channel, slash, wanted = word.partition("/")
    if not word or (not slash and word not in names and _NUMBER_OR_DIGEST.fullmatch(word)):
        return None, word
    if channel not in names or not (wanted == "" or _NUMBER_OR_DIGEST.fullmatch(wanted)):
        raise UsageError(
            f"{word!r:.80} is no number, no 8 digits of a digest and no channel of {model_id}; "
            f"{_elsewhere(book, model_id)}",
            remedy="write 3, canary or canary/3",
        )
    return channel, wanted


def _home(book: Book, model_id: str, main: str, wanted: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the channel that releases belong to which were named without one, and what is to be said of it."""
    having = [
        name
        for model, name in sorted(book.channels)
        if model == model_id and all(_matching(_once_current(book, model_id, name), one) for one in wanted)
    ]
    what = " and ".join(one[:12] for one in dict.fromkeys(wanted))
    if main in having:
        others = [name for name in having if name != main]
        if not others:
            return main, ()
        named = f"for those, --channel {others[0]} or {others[0]}/{wanted[0][:12]}"
        return main, (f"{what}: of {main}, the main channel; also in {_listed(others)} ({named})",)
    if len(having) == 1:
        return having[0], (f"{what}: of {having[0]}; {main}, the main channel, has no such release",)
    if having:
        message = f"{what} is in {_listed(having)} of {model_id}, and not in {main}, the main channel"
        raise ReleaseError(message, remedy=f"name the channel, as in {having[0]}/{wanted[0][:12]}")
    lacks = f"{model_id} has no release {wanted[0]!r}"
    if len(set(wanted)) > 1:
        lacks = f"no channel of {model_id} has both {wanted[0]!r} and {wanted[1]!r}"
    raise ReleaseError(
        f"{lacks}; {_elsewhere(book, model_id)}", remedy="name others, each with its channel: canary/3"
    )


def _before(book: Book, model_id: str, channel: str, current: Row) -> Row:
    """Return the release that was current before the current one."""
    rows = sorted(_once_current(book, model_id, channel), key=lambda row: row.activated_seq)
    earlier = [row for row in rows if row.activated_seq < current.activated_seq]
    if not earlier:
        raise UsageError(
            f"{model_id} {channel} has no prior release; {_elsewhere(book, model_id)}",
            remedy="name the releases, or a channel",
        )
    return earlier[-1]


def _once_current(book: Book, model_id: str, channel: str) -> list[Row]:
    return [row for row in book.rows(model_id, channel) if row.activated_seq >= 0]


def _matching(rows: Sequence[Row], wanted: str) -> list[Row]:
    if wanted.isdecimal() and len(wanted) < 8:
        return [row for row in rows if row.number == int(wanted)]
    return [row for row in rows if row.digest.startswith(wanted)]


def _elsewhere(book: Book, model_id: str) -> str:
    """Return what a model has: ``it has canary 1; production 1 to 3``."""
    channels = [name for model, name in sorted(book.channels) if model == model_id]
    told = [(name, _once_current(book, model_id, name)) for name in channels]
    having = [f"{name} {_numbers(rows)}" for name, rows in told if rows]
    more = f"; and {len(having) - SHOWN} more channels" if len(having) > SHOWN else ""
    return f"it has {'; '.join(having[:SHOWN])}{more}" if having else "it has none at all"


def _numbers(rows: Sequence[Row]) -> str:
    """Return the numbers of releases, ``1 to 3 and 5``; burnt ones are none."""
    runs: list[list[int]] = []
    for row in rows:
        if runs and runs[-1][-1] == row.number - 1:
            runs[-1].append(row.number)
        else:
            runs.append([row.number])
    texts = [[str(number) for number in one] if len(one) < 3 else [f"{one[0]} to {one[-1]}"] for one in runs]
    return _listed([text for one in texts for text in one])


def _listed(texts: Sequence[str]) -> str:
    if len(texts) > SHOWN:
        return f"{', '.join(texts[:SHOWN])} and {len(texts) - SHOWN} more"
    return " and ".join([*([", ".join(texts[:-1])] if texts[:-1] else []), *texts[-1:]]) or "none"
