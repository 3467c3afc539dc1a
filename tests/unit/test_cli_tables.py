"""Tables at 80 columns: what the next command needs stands on one line, whole."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from acceptd.cli.tables import print_pairs, print_table

pytestmark = pytest.mark.unit

SUBMISSION = "20261130t022401441-dae9409a"
COLUMNS = ("submission", "model", "digest", "holds", "standing")
ROW = (SUBMISSION, "mosaic/other-thing", "9e321ab16d07", "contract/missing", "1 more of 1 approvals needed")


def shown(width: int, *rows: tuple[object, ...], columns: tuple[str, ...] = COLUMNS) -> str:
    out = io.StringIO()
    print_table(Console(file=out, width=width, markup=False), columns, rows, empty="nothing waits")
    return out.getvalue()


@pytest.mark.parametrize("width", [20, 40, 80, 100, 120, 240])
def test_no_id_is_folded_or_cut_at_any_width(width: int) -> None:
    text = shown(width, ROW)
    assert all(word in text for word in ROW[:4])
    if width >= 100:
        assert text.splitlines()[0].split() == list(COLUMNS)
        assert max(map(len, text.splitlines())) <= width


def test_where_a_row_has_no_room_it_becomes_lines() -> None:
    assert shown(80, ROW, ("b", None, "", "c", "d")).splitlines() == [
        f"submission    {SUBMISSION}",
        "  model       mosaic/other-thing",
        "  digest      9e321ab16d07",
        "  holds       contract/missing",
        "  standing    1 more of 1 approvals needed",
        "submission    b",
        "  holds       c",
        "  standing    d",
    ]


def test_free_text_is_what_folds() -> None:
    text = shown(40, (SUBMISSION, "a b c d e f g h"), columns=("submission", "reason"))
    assert [one.split()[-1] for one in text.splitlines()[1:]] != []
    assert SUBMISSION in text
    assert max(map(len, text.splitlines())) <= 40


def test_an_empty_table_is_a_word_and_a_hostile_cell_is_text() -> None:
    assert shown(80) == "nothing waits\n"
    assert "\x1b" not in shown(80, ("\x1b[31m[red]", "m", "d", "h", "s"))
    assert "[red]" in shown(80, ("\x1b[31m[red]", "m", "d", "h", "s"))


def pairs(width: int, *rows: tuple[str, object], least: int = 0) -> list[str]:
    out = io.StringIO()
    print_pairs(Console(file=out, width=width, markup=False), rows, width=least)
    return out.getvalue().splitlines()


def test_a_long_value_is_folded_below_its_own_beginning() -> None:
    told = pairs(40, ("ledger", "unanchored: name a place outside the state"), ("key revocation", "here"))
    assert told == [
        "ledger          unanchored: name a place",
        "                outside the state",
        "key revocation  here",
    ]
    assert pairs(80, ("a", "b"), least=6) == ["a       b"]


@pytest.mark.parametrize("value", ["/a/very/long/path/" + "x" * 100, "ab" * 32])
def test_a_path_and_a_digest_stay_on_one_line(value: str) -> None:
    assert pairs(40, ("state", value)) == [f"state  {value}"]


def test_a_value_cannot_forge_a_line_or_drive_the_terminal() -> None:
    assert len(pairs(80, ("a", "b\nledger anchored"))) == 1
    assert pairs(80, ("a\x1b[2J", "\x1b[2J b"))[0].isprintable()
    assert pairs(80) == []
    assert pairs(80, ("empty", "")) == ["empty"]
