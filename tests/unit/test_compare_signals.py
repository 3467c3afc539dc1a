"""Sequences compared token by token, audio by its noise and its spectrum."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from acceptd.compare import sequence as sequence_module
from tests.compare_world import Values

pytestmark = pytest.mark.unit


@pytest.fixture
def world() -> Iterator[Values]:
    one = Values()
    yield one
    one.close()


# -- sequence


def test_a_row_of_more_tokens_than_can_be_compared_is_not_compared(
    world: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence_module, "MAX_ROW", 3)
    rows = np.array([[5, 6, 2, 0]])
    found = world.one(rows, rows, "sequence")
    assert (found.comparable, found.note, found.sequence) == (False, "malformed", None)
    assert world.one(rows[:, :3], rows[:, :3], "sequence").comparable


def test_rows_without_a_token_are_the_same_rows(world: Values) -> None:
    nothing = np.zeros((3, 0), np.int64)
    found = world.one(nothing, nothing, "sequence", how={"end": 2}).sequence
    assert found is not None
    assert (found.rows, found.exact, found.tokens) == (3, 3, 0)


def test_tokens_are_exact_and_the_first_other_one_is_shown(world: Values) -> None:
    expected = np.array([[5, 6, 2, 0], [5, 7, 8, 2]])
    got = expected.copy()
    got[1, 2] = 9
    row = world.one(expected, got, "sequence", how={"end": 2}, atol=5.0)
    found = row.sequence
    assert found is not None
    assert found.token_worst is not None
    assert (found.rows, found.exact, found.tokens, found.unterminated) == (2, 1, 8, 0)
    assert (found.token_worst.index, found.token_worst.expected, found.token_worst.got) == ([1, 2], "8", "9")
    assert row.exceeding == 1


def test_what_follows_the_end_counts_unless_it_was_said_that_it_does_not(world: Values) -> None:
    expected, got = np.array([[5, 2, 0, 0]]), np.array([[5, 2, 7, 7]])
    assert world.one(expected, got, "sequence", how={"end": 2}).exceeding == 2
    ignored = {"end": 2, "ignore_after_end": True}
    same = world.one(expected, got, "sequence", how=ignored)
    assert same.sequence is not None
    assert (same.exceeding, same.sequence.exact, same.sequence.tokens) == (0, 1, 2)
    longer = world.one(expected, np.array([[5, 2]]), "sequence", how=ignored)
    assert (longer.comparable, longer.exceeding) == (True, 0)
    assert world.one(expected, np.array([[5, 2]]), "sequence", how={"end": 2}).note == "shape"


@pytest.mark.parametrize(
    ("row", "token", "end"), [([5, 6, 7], "no token", "no end"), ([5, 6, 2, 1], "6", "the end at 2")]
)
def test_a_row_that_ends_elsewhere_is_named(world: Values, row: list[int], token: str, end: str) -> None:
    expected = np.array([[5, 2, 2, 2]])
    found = world.one(expected, np.array([row]), "sequence", how={"end": 2, "ignore_after_end": True}).sequence
    assert found is not None
    assert found.end_worst is not None
    assert found.token_worst is not None
    assert (found.unterminated, found.end_worst.expected, found.end_worst.got) == (1, "the end at 1", end)
    assert found.token_worst.index == [0, 1]
    assert found.token_worst.got == "6"


# -- audio


def test_the_noise_of_a_known_signal_is_found_in_the_right_channel(world: Values) -> None:
    time = np.arange(4096) / 16_000
    expected = np.stack([np.sin(2 * np.pi * 440 * time), np.sin(2 * np.pi * 880 * time)])[None]
    got = expected.copy()
    got[0, 1] *= 1.01
    row = world.one(expected, got, "audio")
    found = row.audio
    assert found is not None
    assert found.snr_worst is not None
    assert found.lsd_worst is not None
    assert found.min_snr_db == pytest.approx(40.0, abs=1e-9)
    assert (found.channels, found.silent, found.frames, found.snr_worst.index) == (2, 0, 16, [0, 1])
    assert (world.one(expected, expected, "audio").audio or found).min_snr_db == "inf"


def test_a_channel_that_is_twice_as_loud_is_six_decibels_away_in_every_bin(world: Values) -> None:
    noise = np.random.default_rng(3).normal(size=(1, 5120)).astype(np.float32)
    found = world.one(noise, noise * 2, "audio").audio
    assert found is not None
    assert found.lsd_worst is not None
    assert found.max_lsd_db == pytest.approx(20 * math.log10(2), rel=1e-5)
    assert found.min_snr_db == pytest.approx(0.0, abs=1e-6)


def test_silence_and_what_is_no_number(world: Values) -> None:
    silent, tone = np.zeros((1, 1024), np.float32), np.ones((1, 1024), np.float32)
    told = world.one(silent, silent + 1e-7, "audio").audio
    assert told is not None
    assert (told.silent, told.min_snr_db, told.max_lsd_db) == (1, None, 0.0)
    broken = tone.copy()
    broken[0, 600] = np.nan
    lost = world.one(tone, broken, "audio").audio
    assert lost is not None
    assert (lost.min_snr_db, lost.max_lsd_db) == ("-inf", "inf")
    both = world.one(broken, broken, "audio").audio
    assert both is not None
    assert both.max_lsd_db == 0.0
