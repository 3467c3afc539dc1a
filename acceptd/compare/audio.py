"""Audio: noise against signal, and the distance of the spectra, of each channel (row along the last axis)."""

from __future__ import annotations

import functools
import math
from typing import Final

import numpy as np

from acceptd.compare.decode import Array
from acceptd.compare.gauge import Rows, Worst, measure, quiet
from acceptd.kind_facts import Audio
from acceptd.values import Evidence

FRAME: Final = 512
"""Samples of a frame. Chunks are a multiple of it, so that no frame lies across two."""
FLOOR: Final = np.float32(1e-8)
"""80 dB below the greatest expected power of a frame: what lies lower is as good as nothing."""
LEAST_POWER: Final = np.float32(2e-8)
"""Power in a bin of white noise of amplitude 1e-5 (100 dB below a full scale of 1) in a windowed frame."""


class Sound(Rows):
    """Signal-to-noise ratio and log-spectral distance (docs/parity.md)."""

    def __init__(self) -> None:
        super().__init__()
        self.channels = self.silent = self.frames = 0
        self._noise, self._apart = Worst(), Worst()
        self._heard = False
        self.started()

    def started(self) -> None:
        self._parts = np.zeros(4)

    def whole(self, expected: Array, got: Array, first: int) -> None:
        with quiet():
            self._judge(_sums(expected, got, same=self.same), first)

    def part(self, expected: Array, got: Array) -> None:
        with quiet():
            self._parts += _sums(expected[None], got[None], same=self.same)[:, 0]

    def close(self, row: int) -> None:
        with quiet():
            self._judge(self._parts[:, None], row)
        self.started()

    def _judge(self, sums: Array, first: int) -> None:
        """Take [4, channels]: energy of the signal, of the noise, sum of the distances, number of frames."""
        signal, noise, distance, frames = sums
        self.channels += signal.size
        self.frames += int(frames.sum())
        heard = np.flatnonzero(signal != 0)
        self.silent += signal.size - heard.size
        if heard.size:
            self._heard = True
            ratio = 10 * (np.log10(signal[heard]) - np.log10(noise[heard]))
            ratio = np.where(noise[heard] == 0, math.inf, np.where(np.isfinite(signal[heard]), ratio, math.nan))
            ratio = np.where(np.isnan(ratio), -math.inf, ratio)
            at = int(ratio.argmin())
            told = f"{ratio[at]:.6g} dB above the noise"
            self._noise.offer(-float(ratio[at]), lambda: self.place(first + int(heard[at]), ("the channel", told)))
        framed = np.flatnonzero(frames > 0)
        if framed.size:
            apart = distance[framed] / frames[framed]
            apart = np.where(np.isnan(apart), math.inf, apart)
            far = int(apart.argmax())
            said = f"{apart[far]:.6g} dB from it"
            self._apart.offer(
                float(apart[far]), lambda: self.place(first + int(framed[far]), ("the spectrum", said))
            )

    def figures(self) -> dict[str, Evidence]:
        """Return ``audio``."""
        return {
            "audio": Audio(
                channels=self.channels,
                silent=self.silent,
                min_snr_db=measure(-self._noise.value) if self._heard else None,
                snr_worst=self._noise.place,
                frames=self.frames,
                max_lsd_db=measure(self._apart.value) if self._apart.place is not None else None,
                lsd_worst=self._apart.place if self._apart.value > 0 else None,
            )
        }


def _sums(expected: Array, got: Array, *, same: bool) -> Array:
    """Return [4, channels] as :meth:`Sound._judge` takes them, of float64 [channels, samples]."""
    channels = expected.shape[0]
    signal = np.einsum("ij,ij->i", expected, expected)
    if same:
        frames = np.full(channels, float(-(-expected.shape[1] // FRAME)))
        return np.stack([signal, np.zeros(channels), np.zeros(channels), frames])
    difference = got - expected
    if not math.isfinite(float(difference.sum())):
        alike = (expected == got) | (np.isnan(expected) & np.isnan(got))
        difference = np.where(alike, 0.0, difference)
    noise = np.einsum("ij,ij->i", difference, difference)
    distances = spectral(_frames(expected), _frames(got)).reshape(channels, -1)
    return np.stack([signal, noise, distances.sum(axis=1), np.full(channels, float(distances.shape[1]))])


@functools.cache
def _window(size: int) -> Array:
    """Return the periodic Hann window as float32 (Harris, Proceedings of the IEEE 66(1), 1978)."""
    window: Array = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)).astype(np.float32)
    return window if size > 1 else np.ones(1, np.float32)


def spectral(expected: Array, got: Array) -> Array:
    """Return the log-spectral distance in dB of each frame of two float64 [frames, samples] arrays.

    Gray and Markel, 1976: √(mean over the bins of (10 log₁₀(P_e / P_g))²). Computed in float32. Frames that
    are equal have 0; what is not finite on one side alone, or beyond float32, has infinity.
    """
    found = np.zeros(expected.shape[0])
    other = np.flatnonzero(((expected != got) & ~(np.isnan(expected) & np.isnan(got))).any(axis=1))
    if not other.size:
        return found
    powers = []
    for side in (expected, got):
        bins = np.fft.rfft(side[other].astype(np.float32) * _window(side.shape[1]), axis=1)
        powers.append(bins.real**2 + bins.imag**2)
    least = np.maximum(powers[0].max(axis=1, keepdims=True) * FLOOR, LEAST_POWER)
    for power in powers:
        np.maximum(power, least, out=power)
    powers[0] /= powers[1]
    decibels = 10 * np.log10(powers[0])
    apart = np.sqrt(np.einsum("ij,ij->i", decibels, decibels) / decibels.shape[1])
    found[other] = np.where(np.isnan(apart), math.inf, apart)
    return found


def _frames(channels: Array) -> Array:
    """Return [channels * frames, samples]: the last frame filled up with zeros, a single short one as it is."""
    width = channels.shape[1]
    if width <= FRAME:
        return channels
    rest = -width % FRAME
    padded = np.pad(channels, ((0, 0), (0, rest))) if rest else channels
    return padded.reshape(-1, FRAME)
