from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import MediaMalformed
from interlock.media import Wav, check_audio

SOUND = bytes(range(100))


def form(encoding: int = 1, *, channels: int = 1, rate: int = 8_000, block: int = 2, bits: int = 16, extra: bytes = b"") -> bytes:
    return struct.pack("<HHIIHH", encoding, channels, rate, rate * block, block, bits) + extra


def chunk(kind: bytes, content: bytes, size: int | None = None) -> bytes:
    return kind + struct.pack("<I", len(content) if size is None else size) + content + b"\0" * (len(content) & 1)


def wav(*chunks: bytes, size: int | None = None) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body) if size is None else size) + body


GOOD = wav(chunk(b"fmt ", form()), chunk(b"data", SOUND))
EXTENSIBLE = form(0xFFFE, channels=2, rate=48_000, block=6, bits=24, extra=struct.pack("<HHIH", 22, 24, 3, 1) + bytes(14))


def test_a_wav_is_parsed():
    assert Wav.read(GOOD) == Wav(encoding=1, channels=1, rate=8_000, width=2, block=2, data=SOUND)
    assert Wav.read(GOOD).seconds == 50 / 8_000


TAKEN = {
    "no sound": wav(chunk(b"fmt ", form()), chunk(b"data", b"")),
    "other chunks": wav(
        chunk(b"LIST", b"abc"), chunk(b"fmt ", form()), chunk(b"fact", b"1234"), chunk(b"data", SOUND), chunk(b"id3 ", b"x")
    ),
    "something behind it": GOOD + b"ID3 and so on",
    "an odd end without its padding": wav(chunk(b"fmt ", form(block=1, bits=8)), chunk(b"data", b"abc"))[:-1],
    "sizes of a pipe": wav(chunk(b"fmt ", form()), chunk(b"data", SOUND, 0xFFFFFFFF), size=0xFFFFFFFF),
    "sizes of zero": wav(chunk(b"fmt ", form()), chunk(b"data", SOUND, 0), size=0),
    "espeak's sizes": wav(chunk(b"fmt ", form()), chunk(b"data", SOUND, 0x7FFFF000), size=0x7FFFF024),
    "arecord's sizes": wav(chunk(b"fmt ", form()), chunk(b"data", SOUND, 0x80000000), size=0x80000024),
    "the outer size right, the inner never filled in": wav(chunk(b"fmt ", form()), chunk(b"data", SOUND, 0xFFFFFFFF)),
    "extensible": wav(chunk(b"fmt ", EXTENSIBLE), chunk(b"data", SOUND)),
    "packed samples": wav(chunk(b"fmt ", form(17, block=256, bits=4)), chunk(b"data", SOUND)),
    "a format that says more": wav(chunk(b"fmt ", form(extra=b"\0\0")), chunk(b"data", SOUND)),
}


@pytest.mark.parametrize("content", TAKEN.values(), ids=TAKEN.keys())
def test_a_complete_wav_is_accepted(content: bytes):
    check_audio(content, media_type="audio/wav")


@pytest.mark.parametrize("name", ["sizes of a pipe", "sizes of zero", "espeak's sizes", "arecord's sizes"])
def test_a_data_chunk_without_a_size_extends_to_the_end(name: str):
    assert Wav.read(TAKEN[name]).data == SOUND


def test_the_encoding_of_an_extensible_wav_is_read():
    read = Wav.read(TAKEN["extensible"])
    assert (read.encoding, read.channels, read.width) == (1, 2, 3)


MALFORMED = {
    "nothing": b"",
    "only its name": b"RIFF",
    "only a head": wav(),
    "something else": b"not a sound",
    "a picture": b"RIFF\x1a\0\0\0WEBPVP8L",
    "cut off in the sound": GOOD[:-20],
    "cut off in the format": GOOD[:30],
    "sound that declares more than there is": wav(chunk(b"fmt ", form()), chunk(b"data", SOUND, 200), size=4 + 24 + 8 + 100),
    "sound that declares more than there is, of a pipe": wav(chunk(b"fmt ", form()), chunk(b"data", SOUND, 200), size=0),
    "a file that declares more than there is": wav(chunk(b"fmt ", form()), chunk(b"data", SOUND), size=500),
    "a file that declares less than its sound": wav(chunk(b"fmt ", form()), chunk(b"data", SOUND), size=80),
    "another chunk that is cut off": wav(chunk(b"fmt ", form()), chunk(b"LIST", b"x", 4000), chunk(b"data", SOUND)),
    "no format": wav(chunk(b"data", SOUND)),
    "a format behind the sound": wav(chunk(b"data", SOUND), chunk(b"fmt ", form())),
    "no sound at all": wav(chunk(b"fmt ", form())),
    "half a head of a chunk": wav(chunk(b"fmt ", form()), b"data\0\0\0", size=4 + 24 + 8),
    "half a format": wav(chunk(b"fmt ", form()[:10]), chunk(b"data", SOUND)),
    "an extensible format that ends early": wav(chunk(b"fmt ", form(0xFFFE)), chunk(b"data", SOUND)),
    "no channels": wav(chunk(b"fmt ", form(channels=0)), chunk(b"data", SOUND)),
    "no rate": wav(chunk(b"fmt ", form(rate=0)), chunk(b"data", SOUND)),
    "no width": wav(chunk(b"fmt ", form(bits=0)), chunk(b"data", SOUND)),
    "no block": wav(chunk(b"fmt ", form(17, block=0, bits=4)), chunk(b"data", SOUND)),
    "a block of another width": wav(chunk(b"fmt ", form(block=3)), chunk(b"data", SOUND)),
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_truncated_or_inconsistent_wav_is_malformed(content: bytes):
    with pytest.raises(MediaMalformed):
        check_audio(content, media_type="audio/wav")


@pytest.mark.parametrize("media_type", ["audio/mpeg", "audio/ogg", "audio/flac"])
def test_compressed_audio_is_not_checked(media_type: str):
    check_audio(b"ID3", media_type=media_type)


@given(cut=st.integers(0, len(GOOD) - 2))
def test_a_wav_truncated_anywhere_is_malformed(cut: int):
    with pytest.raises(MediaMalformed):
        Wav.read(GOOD[:cut])


@given(changes=st.dictionaries(st.integers(0, 60), st.integers(0, 255), max_size=6), cut=st.integers(0, len(GOOD)))
def test_flipped_bytes_are_a_wav_or_malformed(changes: dict[int, int], cut: int):
    content = bytearray(GOOD)
    for at, value in changes.items():
        content[at] = value
    with contextlib.suppress(MediaMalformed):
        assert Wav.read(bytes(content[:cut])).seconds >= 0
