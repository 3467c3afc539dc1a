"""Targets ``names`` and ``native``: names of drops and files, and the first bytes by which a program is known.

A name comes from a file system, an archive or a model, and is any bytes. What is admitted is one and the same
name everywhere; what is shown is one printable line; and how many parts a file comes in changes nothing.
"""

from __future__ import annotations

import os
import unicodedata
from typing import Any, Final
from urllib.parse import parse_qsl

from acceptd.errors import SealError, UsageError
from acceptd.intake.native import Sniffer
from acceptd.intake.paths import Inventory, check_component, folded, shown
from acceptd.policy import names
from acceptd.policy.limits import LimitsTable
from acceptd.postgres_url import record_url
from acceptd.report.escape import line, markup
from acceptd.web.asked import Asked
from fuzz.house import only

LIMITS: Final = LimitsTable(files=16, path_bytes=200, path_depth=8)
_SEEN_BADLY: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"})


def check(raw: bytes) -> None:
    """Take ``raw`` as names, one a line: of drops, members of archives, in messages, in addresses."""
    inventory = Inventory(LIMITS)
    admitted: dict[str, str] = {}
    for one in raw.split(b"\n"):
        _seen(shown(one))
        _seen(shown(os.fsdecode(one)))
        text = one.decode("utf-8", "backslashreplace")
        _seen(line(text))
        assert not set(markup(text)) & set("<>\"'")
        path = only(SealError, lambda one=one: inventory.path(one))
        if path is not None:
            assert path.encode() == one
            assert not path.startswith("/")
            assert not {"", ".", ".."} & set(path.split("/"))
            assert unicodedata.is_normalized("NFC", path)
            if only(SealError, lambda path=path: inventory.file(path, 1) or 1):
                assert admitted.setdefault(folded(path), path) == path
        component = only(SealError, lambda one=one: check_component(one, "here"))
        assert component is None or "/" not in component
        for valid in (
            names.valid_name,
            names.valid_model_id,
            names.valid_sha256,
            names.valid_moment,
            names.relative_path,
        ):
            found = only(ValueError, lambda valid=valid, text=text: valid(text))
            assert found is None or found == text
        url = only(ValueError, lambda text=text: record_url(text))
        assert not url or "password" not in url.lower()
        _asked(text)


def _seen(text: str) -> None:
    assert all(char.isprintable() for char in text), text
    assert not {unicodedata.category(char) for char in text} & _SEEN_BADLY
    assert len(text) <= 401


class _Parameters:
    def __init__(self, text: str) -> None:
        self._items = parse_qsl(text, keep_blank_values=True, max_num_fields=32)

    def multi_items(self) -> list[tuple[str, str]]:
        return self._items


_KNOWN: Final = ("team", "model", "code", "kind", "before", "digest", "since", "verdict")


def _asked(text: str) -> None:
    try:
        given = _Parameters(text)
    except ValueError:
        return
    found: Any = only(UsageError, lambda: Asked(given, _KNOWN))
    if found is None:
        return
    for call in (
        found.team, found.model, found.code, found.kind, lambda: found.submission("before"),
        lambda: found.digest("digest"), lambda: found.number("before"), lambda: found.time("since"),
        lambda: found.one_of("verdict", ("held", "accepted")),
    ):  # fmt: skip
        only(UsageError, call)


def check_native(raw: bytes) -> None:
    """Feed ``raw`` whole, and in pieces of the size of its first byte."""
    if not raw:
        return
    whole, pieces = Sniffer(), Sniffer()
    whole.feed(raw[1:])
    step = raw[0] or 1
    for at in range(1, len(raw), step):
        pieces.feed(raw[at : at + step])
    assert whole.native == pieces.native


def seeds() -> dict[str, bytes]:
    """Return names of every sort."""
    return {
        "good": b"model.onnx\nset_0/input_0.pb\nMosaic\nteam/model\n" + b"a" * 64 + b"\n2027-06-30T00:00:00Z",
        "case": b"A\na\nstra\xc3\x9fe\nSTRASSE\n\xc4\xb0\ni\xcc\x87",
        "bad": b"../up\n/abs\na//b\n.\nCON\nnul.txt\na \n a\n-rf\na\\b",
        "odd": "\u202e\n\u200b\n\ufeff\ne\u0301\n\u0301\u0301\u0301\u0301\u0301\u0301\n\U000e0100".encode(),
        "broken": b"\xff\xfe\n\xed\xa0\x80\n\xc0\xaf\n\x00\n\x1b[2J",
        "asked": b"team=mosaic&model=mosaic/small&since=30d\nbefore=1&verdict=held\ndigest=" + b"1" * 64,
        "url": b"postgresql://a@db.example:5432/a?sslmode=require\npostgres://u:secret@h/d\npostgresql://[::1",
    }  # fmt: skip


def native_seeds() -> dict[str, bytes]:
    """Return heads of programs."""
    return {
        "elf": b"\3\x7fELF" + bytes(60),
        "pe": b"\7MZ" + bytes(58) + b"\x80\0\0\0" + bytes(64) + b"PE\0\0",
        "tiny-pe": b"\1MZ\0\0PE\0\0" + bytes(52) + b"\4\0\0\0",
        "mach-o": b"\2\xcf\xfa\xed\xfe" + bytes(20),
        "fat": b"\5\xca\xfe\xba\xbe\0\0\0\2" + bytes(20),
        "java": b"\5\xca\xfe\xba\xbe\0\0\0\x3d" + bytes(20),
        "none": b"\1\x08\x0a" + bytes(30),
    }
