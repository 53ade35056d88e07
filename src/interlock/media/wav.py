"""WAV files: their structure is checked without decoding the sound."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from interlock.errors import MediaMalformed
from interlock.media.data_uri import sniff

__all__ = ["Wav", "check_audio"]

_STREAMED = 0x7FFF_0000
"""A size from here on is a placeholder of a program that streamed the file: 0xffffffff, or the two gigabytes of espeak and arecord."""

_EXTENSIBLE = 0xFFFE
_BY_SAMPLE = frozenset({1, 3, 6, 7})  # PCM, float, A-law and u-law have whole samples; other encodings have packed blocks


@dataclass(frozen=True, kw_only=True)
class Wav:
    """The parts of a WAV file. The sound is not decoded."""

    encoding: int
    """1 is PCM, 3 is floating point."""
    channels: int
    rate: int
    width: int
    """Bytes of a sample, or 0 where samples are packed."""
    block: int
    """Bytes of one sample of every channel, or of one packed block."""
    data: bytes

    @classmethod
    def read(cls, content: bytes) -> Wav:
        """Parse a WAV file. Raises MediaMalformed where it is cut off or contradicts itself."""
        form = None
        for kind, chunk in _wav_chunks(content):
            if kind == b"fmt ":
                form = chunk
            elif kind == b"data":
                if form is None:
                    raise MediaMalformed("The WAV has sound data before its format.")
                return cls._of(form, chunk)
        raise MediaMalformed("The WAV has no sound data.")

    @classmethod
    def _of(cls, form: bytes, data: bytes) -> Wav:
        try:
            encoding, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", form)
            if encoding == _EXTENSIBLE:
                (encoding,) = struct.unpack_from("<H", form, 24)
        except struct.error as error:
            raise MediaMalformed("The format of the WAV is too short.") from error
        width = (bits + 7) // 8 if encoding in _BY_SAMPLE else 0
        if not channels or not rate or not block or (encoding in _BY_SAMPLE and (not width or block != channels * width)):
            raise MediaMalformed("The WAV contradicts itself in its channels, rate or width.")
        return cls(encoding=encoding, channels=channels, rate=rate, width=width, block=block, data=data)

    @property
    def seconds(self) -> float:
        """The duration, where samples are not packed."""
        return len(self.data) / self.block / self.rate


def _wav_chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the chunks. A chunk that is cut off is refused; one with a placeholder for its size reaches to the end of the file."""
    if sniff(content) != "audio/wav":
        raise MediaMalformed("The audio is not a WAV.")
    (size,) = struct.unpack_from("<I", content, 4)
    is_streamed = not size or size >= _STREAMED
    # Many programs leave out the padding byte at the end.
    if not is_streamed and 8 + size > len(content) + 1:
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
    """Raise MediaMalformed for audio that is visibly damaged without decoding it. Only WAV is checked."""
    if media_type == "audio/wav":
        Wav.read(content)
