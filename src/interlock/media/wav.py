"""WAV files: their structure is checked without decoding the sound."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from interlock.errors import MediaMalformed
from interlock.media.data_uri import sniff

__all__ = ["Wav", "check_audio"]

_STREAMED = 0x7FFF_0000
"""From here on a size is one that was written before anybody knew: 0xffffffff, or espeak's and arecord's two gigabytes."""

_EXTENSIBLE = 0xFFFE
_BY_SAMPLE = frozenset({1, 3, 6, 7})  # PCM, float, A-law, u-law: these keep whole samples, others blocks of them


@dataclass(frozen=True, kw_only=True)
class Wav:
    """A WAV file, taken apart but not decoded."""

    encoding: int
    """1 is PCM, 3 is floating point."""
    channels: int
    rate: int
    width: int
    """Bytes of a sample, 0 where samples are packed."""
    block: int
    """Bytes of a sample of every channel, or of a packed block."""
    data: bytes

    @classmethod
    def read(cls, content: bytes) -> Wav:
        """Read a WAV; one that is cut off or contradicts itself is a MediaMalformed."""
        form = None
        for kind, chunk in _wav_chunks(content):
            if kind == b"fmt ":
                form = chunk
            elif kind == b"data":
                if form is None:
                    raise MediaMalformed("The WAV has sound before it says what kind of sound.")
                return cls._of(form, chunk)
        raise MediaMalformed("The WAV has no sound in it.")

    @classmethod
    def _of(cls, form: bytes, data: bytes) -> Wav:
        try:
            encoding, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", form)
            if encoding == _EXTENSIBLE:
                (encoding,) = struct.unpack_from("<H", form, 24)
        except struct.error as error:
            raise MediaMalformed("The WAV does not say what kind of sound it has.") from error
        width = (bits + 7) // 8 if encoding in _BY_SAMPLE else 0
        if not channels or not rate or not block or (encoding in _BY_SAMPLE and (not width or block != channels * width)):
            raise MediaMalformed("The WAV contradicts itself in its channels, rate or width.")
        return cls(encoding=encoding, channels=channels, rate=rate, width=width, block=block, data=data)

    @property
    def seconds(self) -> float:
        """How long it lasts, where samples are not packed."""
        return len(self.data) / self.block / self.rate


def _wav_chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Walk the chunks, none of which may be cut off; sizes that were never filled in reach to the end."""
    if sniff(content) != "audio/wav":
        raise MediaMalformed("The audio is not a WAV.")
    (size,) = struct.unpack_from("<I", content, 4)
    is_streamed = not size or size >= _STREAMED
    if not is_streamed and 8 + size > len(content) + 1:  # the last byte of padding is often left out
        raise MediaMalformed("The WAV is cut off.")
    last = len(content) if is_streamed else min(8 + size, len(content))
    at = 12
    while at + 8 <= last:
        kind, size = struct.unpack_from("<4sI", content, at)
        end = at + 8 + size
        if kind == b"data" and (size >= _STREAMED or (is_streamed and not size)):
            end = last
        if end > last:
            raise MediaMalformed("A chunk of the WAV is cut off.")
        yield kind, content[at + 8 : end]
        at = end + (size & 1)


def check_audio(content: bytes, *, media_type: str) -> None:
    """Refuse audio that can be seen to be damaged without decoding it: a MediaMalformed."""
    if media_type == "audio/wav":
        Wav.read(content)
