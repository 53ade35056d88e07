from __future__ import annotations

import math
import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import MediaUnsupported
from interlock.media import Wav
from interlock_agents.sam.media.pcm import mono


def sound(data: bytes, *, rate: int = 16_000, width: int = 2, channels: int = 1, encoding: int = 1) -> Wav:
    return Wav(encoding=encoding, channels=channels, rate=rate, width=width, block=width * channels, data=data)


def heard(wav: Wav, rate: int = 16_000) -> list[int]:
    return array("h", mono(wav, rate=rate)).tolist()


@pytest.mark.parametrize(
    ("width", "encoding", "data"),
    [
        (1, 1, bytes([128, 255, 0, 192])),
        (2, 1, struct.pack("<4h", 0, 32512, -32768, 16384)),
        (3, 1, b"\0\0\0" + b"\xff\0\x7f" + b"\0\0\x80" + b"\xff\0\x40"),
        (4, 1, struct.pack("<4i", 0, 32512 << 16, -(2**31), 16384 << 16)),
        (4, 3, struct.pack("<4f", 0, 32512 / 32767, -5.0, 16384 / 32767)),
        (8, 3, struct.pack("<4d", 0, 32512 / 32767, -math.inf, 16384 / 32767)),
    ],
    ids=["8 bit", "16 bit", "24 bit", "32 bit", "float", "double"],
)
def test_samples_of_every_width_are_equivalent(width: int, encoding: int, data: bytes):
    assert heard(sound(data, width=width, encoding=encoding)) == pytest.approx([0, 32512, -32768, 16384], abs=1)


def test_nan_samples_are_accepted():
    assert len(heard(sound(struct.pack("<2f", math.nan, -math.nan), width=4, encoding=3))) == 2


def test_channels_are_mixed():
    assert heard(sound(struct.pack("<6h", 100, 300, -5, 5, 32767, 32767), channels=2)) == [200, 0, 32767]
    assert heard(sound(struct.pack("<6h", *range(6)), channels=6)) == [2]


def test_an_incomplete_last_frame_is_dropped():
    assert heard(sound(struct.pack("<3h", 1, 3, 9), channels=2)) == [2]
    assert heard(sound(b"\1\0\2")) == [1]


def tone(rate: int, hertz: int = 300, seconds: float = 0.25) -> bytes:
    return array("h", (int(10_000 * math.sin(2 * math.pi * hertz * n / rate)) for n in range(int(rate * seconds)))).tobytes()


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000, 96_000, 15_999, 16_001])
def test_resampling_keeps_the_frequency(rate: int):
    made, wanted = heard(sound(tone(rate), rate=rate)), array("h", tone(16_000))
    assert abs(len(made) - len(wanted)) <= 2
    shift = 16_000 / rate / 2  # what is averaged lies between its samples
    for at in range(100, len(made) - 100):
        exact = 10_000 * math.sin(2 * math.pi * 300 * (at + max(0, 0.5 - shift)) / 16_000)
        assert abs(made[at] - exact) < 700


def test_frequencies_above_the_rate_are_not_aliased():
    high = array("h", (int(10_000 * math.sin(2 * math.pi * 16_000 * n / 48_000 + 1)) for n in range(4_800))).tobytes()
    assert max(map(abs, heard(sound(high, rate=48_000)))) < 50  # one sample in three of it would be a constant 8,000


@pytest.mark.parametrize(("encoding", "width"), [(2, 0), (6, 1), (7, 1), (3, 2), (3, 1), (1, 5), (1, 0), (0x55, 0)])
def test_encodings_other_than_pcm_are_unsupported(encoding: int, width: int):
    with pytest.raises(MediaUnsupported):
        mono(Wav(encoding=encoding, channels=1, rate=8_000, width=width, block=width or 1, data=bytes(10)), rate=16_000)


@given(
    data=st.binary(max_size=300),
    rate=st.integers(1_000, 400_000),
    width=st.integers(1, 4),
    channels=st.integers(1, 70),
    encoding=st.sampled_from([1, 3]),
)
def test_any_samples_are_converted(data: bytes, rate: int, width: int, channels: int, encoding: int):
    if encoding == 3:
        width = 4 if width < 3 else 8
    frames = len(data) // (width * channels)
    assert len(heard(sound(data, rate=rate, width=width, channels=channels, encoding=encoding))) == frames * 16_000 // rate
