"""Convert WAV audio for speech recognisers: one channel of 16-bit samples at a given rate."""

from __future__ import annotations

import sys
from array import array
from itertools import accumulate, pairwise

from interlock.errors import MediaUnsupported
from interlock.media import Wav

__all__ = ["mono"]

_PCM, _FLOAT = 1, 3
_SIGNED = bytes(value ^ 0x80 for value in range(256))
_TAKEN = frozenset({(_PCM, 1), (_PCM, 2), (_PCM, 3), (_PCM, 4), (_FLOAT, 4), (_FLOAT, 8)})


def mono(wav: Wav, *, rate: int) -> bytes:
    """Mix, widen or narrow, and resample a WAV to one channel of 16-bit samples, as the machine writes them.

    By slices of arrays where that can be done: `audioop` is gone from Python 3.13.
    """
    samples = _sixteen_bit(wav)
    if wav.channels > 1:
        apart = [samples[channel :: wav.channels] for channel in range(wav.channels)]
        samples = array("h", (sum(frame) // wav.channels for frame in zip(*apart, strict=False)))
    return _resampled(samples, wav.rate, rate).tobytes()


def _sixteen_bit(wav: Wav) -> array[int]:
    if (wav.encoding, wav.width) not in _TAKEN:
        raise MediaUnsupported(f"WAV of encoding {wav.encoding} with {wav.width} bytes a sample is not taken. Send PCM.")
    data = wav.data[: len(wav.data) - len(wav.data) % wav.width]
    if wav.encoding == _FLOAT:
        floats = array("f" if wav.width == 4 else "d", data)  # noqa: PLR2004 - single or double
        if sys.byteorder == "big":
            floats.byteswap()
        return array("h", (int(max(-1.0, min(1.0, value)) * 32767) for value in floats))  # what is no number becomes a click
    narrow = bytearray(len(data) // wav.width * 2)
    if wav.width == 1:  # the only width without a sign
        narrow[1::2] = data.translate(_SIGNED)
    else:
        narrow[0::2], narrow[1::2] = data[wav.width - 2 :: wav.width], data[wav.width - 1 :: wav.width]
    samples = array("h", bytes(narrow))
    if sys.byteorder == "big":
        samples.byteswap()
    return samples


def _resampled(samples: array[int], given: int, wanted: int) -> array[int]:
    """Resample: average samples to lower the rate, interpolate linearly to raise it."""
    if given == wanted:
        return samples
    count = len(samples) * wanted // given
    if given > wanted:
        sums = array("q", accumulate(samples, initial=0))
        edges = (n * given // wanted for n in range(count + 1))
        return array("h", ((sums[end] - sums[start]) // (end - start) for start, end in pairwise(edges)))
    ends = samples[1:] + samples[-1:]
    lines = (divmod(n * given, wanted) for n in range(count))
    return array("h", (samples[at] + (ends[at] - samples[at]) * rest // wanted for at, rest in lines))
