"""Text in a model file: valid UTF-8, of sane length, and names that are what they look like.

Names are judged by Unicode's own notions (UTS 39): mixed scripts within one word, where a letter of
another script has a Latin twin. Whole words of one script, symbols and digits never alarm, so that
Chinese, Russian or Greek names, ``Δx`` and ``x²`` pass. Nothing here copies more than a name.
"""

from __future__ import annotations

import codecs
import mmap
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Final

Buffer = bytes | mmap.mmap
Note = Callable[[str, int, str], None]
"""Takes a code, the offset of the place in the file, and a message."""

MAX_NAME: Final = 4096
"""Bytes of a name; longer ones no frame can tell in full, so two of them could not be told apart."""
CHUNK: Final = 1 << 20
PLAIN: Final = bytes((9, 10, 13, *range(0x20, 0x7F)))
"""Printable ASCII, tab and line ends: an output's name may be a JSON string."""
UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u2064\u2066-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control, bidirectional and invisible characters."""

_PAIRS: Final = (
    # Cyrillic
    "аaеeоoрpсcуyхxіiјjѕsһhԁdԛqԝwӏlѵvАAВBЕEКKМMНHОOРPСCТTУYХXЅSІIЈJԌGԚQԜWҮYѴVԀD"
    # Greek; alpha, iota, kappa, rho and upsilon are left out: mathematicians write them beside Latin letters
    "οoϳjϲcϹCΑAΒBΕEΖZΗHΙIΚKΜMΝNΟOΡPΤTΥYΧX"
    # Armenian, Cherokee, Latin beyond ASCII
    "օoսuհhոnզqՏSՍUՕOԼLᎠDᎡRᎢTᎪAᏀGᎳWᎷMᎻHᏃZᏙVᏚSᏞLᏟCᏢPᏦKᏴBᎬEᎫJɑaɡg"
)
_TWINS: Final = dict(zip(_PAIRS[::2], _PAIRS[1::2], strict=True))
"""Letters of other scripts to the ASCII letter that they cannot be told from (confusables.txt, class MA)."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_ASCII_LETTER: Final = re.compile("[A-Za-z]")
_LETTERS: Final = frozenset({"Lu", "Ll", "Nl"})


def utf8(text: bytes, offset: int, note: Note) -> str | None:
    """Return the text; None, with a note, where it is not valid UTF-8: parsers read different strings from it."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        note("wire/invalid-utf8", offset, "text that is not valid UTF-8")
        return None


def free(buf: Buffer, start: int, stop: int, offset: int, note: Note) -> None:
    """Note free text that is not valid UTF-8; a megabyte at a time, whatever its length."""
    if stop - start <= CHUNK:
        text = buf[start:stop]
        if not text.isascii():
            utf8(text, offset, note)
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for pos in range(start, stop, CHUNK):
            decoder.decode(buf[pos : min(pos + CHUNK, stop)], pos + CHUNK >= stop)
    except UnicodeDecodeError:
        note("wire/invalid-utf8", offset, "text that is not valid UTF-8")


def name(buf: Buffer, start: int, stop: int, offset: int, note: Note) -> None:
    """Note a name that is too long, not valid UTF-8, or not what it looks like."""
    if stop - start > MAX_NAME:
        note("wire/long-name", offset, f"a name of {stop - start} bytes")
        free(buf, start, stop, offset, note)
        return
    raw = buf[start:stop]
    if raw.translate(None, PLAIN):
        text = utf8(raw, offset, note)
        if text is not None:
            _odd(text, offset, note)


def _odd(text: str, offset: int, note: Note) -> None:
    found = UNSAFE.search(text)
    if found:
        where = f"U+{ord(found[0]):04X} at character {found.start()}"
        note(
            "structure/unsafe-name", offset, f"name {text[:100]!a} holds a control or invisible character: {where}"
        )
    elif not text.isascii() and (word := mixed(text)):
        note(
            "structure/look-alike-name",
            offset,
            f"name {text[:100]!a} reads like {skeleton(text)[:100]!a}: {word!a}",
        )


def mixed(text: str) -> str:
    """Return the first word that mixes ASCII letters with letters that only look like such; empty if none."""
    for found in _WORD.finditer(text):
        word = found[0]
        if not word.isascii() and _ASCII_LETTER.search(word):
            for char in word:
                if not char.isascii() and _ASCII_LETTER.fullmatch(_twin(char)):
                    return word[:60]
    return ""


def skeleton(text: str) -> str:
    """Return the text with each letter, digit or space as what it cannot be told from (UTS 39, section 4).

    Two names with one skeleton look the same: other scripts, full width, another normal form, odd spaces.
    """
    return "".join(_twin(char) for char in unicodedata.normalize("NFC", text))


def twins(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of different names that look the same: one of each is not ASCII, which alone never alarm."""
    odd = sorted(name for name in names if not name.isascii())
    if not odd:
        return []
    known = set(names)
    found: list[tuple[str, str]] = []
    first: dict[str, str] = {}
    for name in odd:
        looks = skeleton(name)
        other = first.setdefault(looks, looks if looks in known else name)
        if other != name:
            found.append((name, other))
    return found


def _twin(char: str) -> str:
    if char.isascii():
        return char
    found = _TWINS.get(char)
    if found:
        return found
    category = unicodedata.category(char)
    if category in _LETTERS or (category == "Nd" and unicodedata.east_asian_width(char) == "F"):
        folded = unicodedata.normalize("NFKC", char)
        return folded if folded.isascii() else char
    return " " if category == "Zs" else char
