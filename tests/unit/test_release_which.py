"""Which releases two words name, among channels that have the same numbers, others, or none."""

from __future__ import annotations

import pytest

from acceptd.errors import UserError
from acceptd.release.book import Book, Row
from acceptd.release.which import pair_of
from tests.release_world import MODEL

pytestmark = pytest.mark.unit


def book(**channels: list[int]) -> Book:
    """Return a book in which every number has a bundle of its own, the last one of a channel current."""
    made = Book()
    for name, numbers in channels.items():
        made.channels[MODEL, name] = {
            number: Row(
                MODEL, name, number, f"{number:064x}", "promote", "r", 0, number, "",
                state="active" if number == numbers[-1] else "superseded", activated_seq=number,
            )
            for number in numbers
        }  # fmt: skip
    return made


def chosen(of: Book, *words: str, known: tuple[str, ...] = ()) -> tuple[str, str, tuple[str, ...]]:
    first, second = (*words, "", "")[:2]
    pair = pair_of(of, MODEL, main="production", given=None, known=known, first=first, second=second)
    return f"{pair.first.channel} {pair.first.number}", f"{pair.second.channel} {pair.second.number}", pair.notes


def test_a_number_that_only_another_channel_has_is_that_ones() -> None:
    of = book(production=[1], canary=[1, 2, 3])
    note = "canary; production, the main channel, has no such release"
    assert chosen(of, "2") == ("canary 2", "canary 3", (f"2: of {note}",))
    assert chosen(of, "1", "2") == ("canary 1", "canary 2", (f"1 and 2: of {note}",))
    assert chosen(of, f"{2:064x}")[:2] == ("canary 2", "canary 3")


@pytest.mark.parametrize(
    ("channels", "words", "message"),
    [
        ({"production": [1], "beta": [2], "canary": [2]}, ("2",), "2 is in beta and canary of"),
        (
            {"production": [1], "canary": [2]},
            ("1", "2"),
            f"no channel of {MODEL} has both '1' and '2'; it has canary 2;",
        ),
        ({"canary": [1, 2]}, (), f"{MODEL} has no release on production; it has canary 1 and 2"),
        ({"production": [1]}, (), f"{MODEL} production has no prior release; it has production 1"),
        ({}, (), f"{MODEL} has no release on production; it has none at all"),
        ({"production": [1]}, ("staging",), f"{MODEL} has no release on staging; it has production 1"),
        ({"production": [*range(1, 60, 2)]}, ("2",), "it has production 1, 3, 5, 7, 9, 11, 13, 15 and 22 more"),
        ({f"c{at:02}": [1] for at in range(20)}, ("2",), "c07 1; and 12 more channels"),
    ],
)
def test_what_cannot_be_chosen_says_what_there_is(
    channels: dict[str, list[int]], words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        chosen(book(**channels), *words, known=("production", "staging"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
