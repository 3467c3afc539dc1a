"""A name that is not seen for what it is: letters without a shape, marks that pile up over the verdict."""

from __future__ import annotations

import re
import unicodedata

import pytest

from acceptd.cli.common import one_line
from acceptd.cli.outputs import CHANNELS, Channel
from acceptd.intake.paths import shown
from acceptd.report.escape import line, markup
from tests.unit.test_report_channels import hostile_report

pytestmark = pytest.mark.unit

BLANK = "\u034f\u115f\u1160\u17b4\u180b\u180f\u2800\u3164\ufe00\ufe0f\uffa0\U000e0100\U000e01ef"


def piles(text: str) -> int:
    """Return the most marks that stand on one letter."""
    most = now = 0
    for char in text:
        now = now + 1 if unicodedata.category(char) in {"Mn", "Me"} else 0
        most = max(most, now)
    return most


@pytest.mark.parametrize("char", BLANK, ids=lambda char: f"U+{ord(char):04X}")
def test_a_letter_without_a_shape_is_told(char: str) -> None:
    assert char.isprintable(), "that is how it would get through"
    said = line(f"model{char}.onnx")
    assert char not in said
    assert re.fullmatch(r"model\\[uU][0-9a-f]{4,8}\.onnx", said)
    assert shown(f"model{char}".encode()) == said.removesuffix(".onnx")


@pytest.mark.parametrize("mark", ["\u0301", "\u0489", "\u20dd", "\u1dc3", "\ua66f"])
def test_marks_do_not_pile_up(mark: str) -> None:
    said = markup(f"a{mark * 300}b", 4000)
    assert piles(said) == 4
    assert said.count("\\u") == 296
    assert said.endswith("b")


@pytest.mark.parametrize(
    "text",
    [
        "caf\u00e9",
        "cafe\u0301",
        "Vie\u0302\u0323t",
        "\u0e17\u0e35\u0e48",
        "\u05e9\u05bc\u05c1\u05b8",
        "\u6f22\u5b57",
        "\u26a0",
    ],
)
def test_what_people_write_is_shown_as_it_is(text: str) -> None:
    assert line(text) == text


@pytest.mark.parametrize("channel", [one for one in CHANNELS if one.form != "json"], ids=lambda one: one.name)
def test_no_output_lets_them_through(channel: Channel) -> None:
    text = channel.render(hostile_report("a" + "\u0301" * 200 + "\u3164\U000e0100")).decode("utf-8")
    assert piles(text) <= 4
    assert not {"\u3164", "\U000e0100"} & set(text)


def test_a_message_that_is_escaped_keeps_its_end() -> None:
    assert one_line("\x1b\u202e\u3164" * 100 + "\nthe remedy").endswith(r"\u3164 the remedy")
