"""Parse image containers without decoding pixels: size, orientation, and the parts needed to draw the image.

Decoders receive only those parts. Decompression bombs hide in the metadata: Pillow inflates up to 64 MB of text as it opens a PNG,
fills what a GIF's first frame would leave behind, and warns on standard error of every damaged entry of a JPEG's EXIF.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from interlock.errors import MediaBomb, MediaMalformed, MediaUnsupported

__all__ = ["MAX_METADATA", "MAX_PARTS", "MAX_SCANS", "Picture", "unwrap"]

MAX_METADATA = 4 * 1024 * 1024
"""How many bytes the compressed metadata of a PNG may inflate to. It is dropped, but a file that hides more is not an honest picture."""

MAX_SCANS = 100
"""How many passes a JPEG may make over its pixels: ten are usual, and a few bytes are enough for each."""

MAX_PARTS = 100_000
"""How many chunks or segments a file may have: a million empty ones take more memory than the picture."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Picture:
    """An image file with nothing in it but one picture."""

    content: bytes
    width: int
    height: int
    orientation: int = 1
    """As EXIF counts: 1 is upright."""
    held: float = 4
    """How many bytes a decoder holds for each pixel, also where it is asked for a smaller picture."""

    @property
    def pixels(self) -> int:
        return self.width * self.height


def unwrap(content: bytes, *, media_type: str) -> Picture:
    """Parse an image file and remove its metadata. Raises MediaUnsupported, MediaMalformed or MediaBomb."""
    read = _READERS.get(media_type)
    if read is None:
        raise MediaUnsupported(f"Images of type '{media_type}' are not taken. Send one of {', '.join(_READERS)}.")
    try:
        picture = read(content)
    except (struct.error, IndexError) as error:
        raise MediaMalformed(f"The '{media_type}' ends too early.") from error
    if not picture.pixels:
        raise MediaMalformed(f"The '{media_type}' has no pixels.")
    return picture


def _counted(parts: Iterator[T]) -> Iterator[T]:
    for count, part in enumerate(parts):
        if count >= MAX_PARTS:
            raise MediaBomb(f"The image is in more than {MAX_PARTS:,} parts.")
        yield part


# PNG

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_DRAWN = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})
_PNG_DEFLATED = {
    b"zTXt": re.compile(rb"[^\0]*\0\0", re.DOTALL),
    b"iCCP": re.compile(rb"[^\0]*\0\0", re.DOTALL),
    b"iTXt": re.compile(rb"[^\0]*\0\x01\0[^\0]*\0[^\0]*\0", re.DOTALL),
}


def _png(content: bytes) -> Picture:
    if not content.startswith(_PNG):
        raise MediaMalformed("The image is not a PNG.")
    drawn = [_PNG]
    orientation, inflated = 1, 0
    for kind, chunk, data in _counted(_png_chunks(content)):
        if kind in _PNG_DRAWN:
            drawn.append(chunk)
        elif kind == b"eXIf":
            orientation = _orientation(data)
        elif kind in _PNG_DEFLATED:
            inflated += _inflated(data, after=_PNG_DEFLATED[kind], limit=MAX_METADATA - inflated)
    if drawn[1][4:8] != b"IHDR":
        raise MediaMalformed("The PNG does not begin with its header.")
    width, height = struct.unpack_from(">II", drawn[1], 8)
    return Picture(content=b"".join(drawn), width=width, height=height, orientation=orientation)


def _png_chunks(content: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield kind, whole chunk and data of each chunk, up to the last one."""
    at = len(_PNG)
    while True:
        (size,) = struct.unpack_from(">I", content, at)
        end = at + 12 + size
        (checksum,) = struct.unpack_from(">I", content, end - 4)
        chunk = content[at:end]
        if zlib.crc32(chunk[4:-4]) != checksum:
            raise MediaMalformed("A chunk of the PNG has a wrong checksum.")
        yield chunk[4:8], chunk, chunk[8:-4]
        if chunk[4:8] == b"IEND":
            return
        at = end


def _inflated(data: bytes, *, after: re.Pattern[bytes], limit: int) -> int:
    """Return the inflated size of compressed metadata. Raises MediaBomb above the limit."""
    head = after.match(data)
    if head is None:
        return 0
    try:
        size = len(zlib.decompressobj().decompress(data[head.end() :], limit + 1))
    except zlib.error:  # damaged metadata is dropped anyway
        return 0
    if size > limit:
        raise MediaBomb(f"The metadata of the PNG inflates to more than {MAX_METADATA:,} bytes.")
    return size


# JPEG

# One 0xff, though several may stand before a marker: `\xff+` takes the square of the time on a run of them.
_JPEG_MARKER = re.compile(rb"\xff([^\x00\xff])", re.DOTALL)
_JPEG_AFTER_SCAN = re.compile(rb"\xff([^\x00\xff\xd0-\xd7])", re.DOTALL)  # restarts are part of a scan
_SOS, _EOI, _APP1 = 0xDA, 0xD9, 0xE1
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_PROGRESSIVE = frozenset({0xC2, 0xC6, 0xCA, 0xCE})
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD9)})  # markers with nothing behind them
_JPEG_DROPPED = frozenset({*range(0xE0, 0xF0), 0xFE})
_JPEG_COLOURS = {0xE0: b"JFIF", 0xEE: b"Adobe"}  # say how the colours are written, so these are drawn with


def _jpeg(content: bytes) -> Picture:
    if not content.startswith(b"\xff\xd8\xff"):
        raise MediaMalformed("The image is not a JPEG.")
    drawn, frames, scans = [b"\xff\xd8"], list[tuple[int, bytes]](), list[int]()
    orientation = 1
    for marker, segment, data in _counted(_jpeg_segments(content)):
        if marker in _JPEG_FRAMES:
            frames.append((marker, data))
        elif marker == _SOS:
            scans.append(data[0])
        elif marker == _APP1 and data.startswith(b"Exif\0\0"):
            orientation = _orientation(data)
        if marker not in _JPEG_DROPPED or data.startswith(_JPEG_COLOURS.get(marker, b"\0nothing")):
            drawn.append(segment)
    if len(frames) != 1 or not scans:
        raise MediaMalformed(f"The JPEG has {len(frames)} frames in {len(scans)} scans.")
    if len(scans) > MAX_SCANS:
        raise MediaBomb(f"The JPEG has more than {MAX_SCANS} scans.")
    ((marker, frame),) = frames
    is_line_by_line = marker not in _JPEG_PROGRESSIVE and min(scans) >= frame[5]  # every scan has all the colours
    height, width = struct.unpack_from(">HH", frame, 1)
    return Picture(
        content=b"".join([*drawn, b"\xff\xd9"]),
        width=width,
        height=height,
        orientation=orientation,
        held=0 if is_line_by_line else _coefficients(frame),
    )


def _coefficients(frame: bytes) -> float:
    """Return the bytes per pixel that a multi-scan JPEG needs: two per sample, held until the last scan is read."""
    samplings = [(frame[at] >> 4, frame[at] & 15) for at in range(7, 7 + 3 * frame[5], 3)]
    whole = max(across for across, _ in samplings) * max(down for _, down in samplings)
    if not whole:
        raise MediaMalformed("The JPEG has a colour without samples.")
    return 2 * sum(across * down for across, down in samplings) / whole


def _jpeg_segments(content: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield marker, whole segment (with the scan that follows it) and data, up to the end of the image."""
    found = _JPEG_MARKER.search(content, 2)
    while found is not None and found[1][0] != _EOI:
        marker, start = found[1][0], found.end()
        end = start if marker in _JPEG_BARE else start + struct.unpack_from(">H", content, start)[0]
        found = (_JPEG_AFTER_SCAN if marker == _SOS else _JPEG_MARKER).search(content, end)
        whole = found.start() if marker == _SOS and found is not None else end
        yield marker, content[start - 2 : whole], content[start + 2 : end]
    if found is None:
        raise MediaMalformed("The JPEG ends too early.")


# GIF


def _gif(content: bytes) -> Picture:
    """Keep the screen descriptor and everything from the first frame on. Of the extensions between, keep only the transparent colour."""
    if not content.startswith((b"GIF87a", b"GIF89a")):
        raise MediaMalformed("The image is not a GIF.")
    width, height, flags = struct.unpack_from("<HHB", content, 6)
    at = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    head, control = content[:at], b""
    while content[at] == 0x21:  # noqa: PLR2004 - an extension
        label, size = content[at + 1], content[at + 2]
        if label == 0xF9 and size == 4:  # noqa: PLR2004 - graphic control
            control = b"!\xf9\x04" + bytes([content[at + 3] & 1, 0, 0, content[at + 6], 0])
        at += 2
        while content[at]:
            at += 1 + content[at]
        at += 1
    if content[at] != 0x2C:  # noqa: PLR2004 - a frame
        raise MediaMalformed("The GIF has no picture.")
    left, top, across, down = struct.unpack_from("<HHHH", content, at + 1)
    if not across * down:
        raise MediaMalformed("The GIF has no pixels.")
    return Picture(content=head + control + content[at:], width=max(width, left + across), height=max(height, top + down))


# WebP

_WEBP_DRAWN = frozenset({b"VP8X", b"VP8 ", b"VP8L", b"ALPH", b"ANIM", b"ANMF"})
_WEBP_HELD = 16  # two canvases, the frame as bytes, and the image: measured


def _webp(content: bytes) -> Picture:
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP":
        raise MediaMalformed("The image is not a WebP.")
    drawn: list[bytes] = []
    size: tuple[int, int] | None = None
    orientation, frames = 1, 0
    for kind, chunk, data in _counted(_webp_chunks(content)):
        size = size or _webp_size(kind, data)
        frames += kind == b"ANMF"
        if kind in _WEBP_DRAWN and frames <= 1:
            drawn.append(chunk)
        elif kind == b"EXIF":
            orientation = _orientation(data)
    if size is None:
        raise MediaMalformed("The WebP has no picture.")
    body = b"WEBP" + b"".join(drawn)
    whole = b"RIFF" + struct.pack("<I", len(body)) + body
    return Picture(content=whole, width=size[0], height=size[1], orientation=orientation, held=_WEBP_HELD)


def _webp_chunks(content: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield kind, whole chunk and data of each chunk."""
    (size,) = struct.unpack_from("<I", content, 4)
    at, last = 12, 8 + size
    if last > len(content):
        raise MediaMalformed("The WebP ends too early.")
    while at + 8 <= last:
        (size,) = struct.unpack_from("<I", content, at + 4)
        end = at + 8 + size
        if end > last:
            raise MediaMalformed("A chunk of the WebP ends too early.")
        yield content[at : at + 4], content[at:end] + b"\0" * (size & 1), content[at + 8 : end]
        at = end + (size & 1)


def _webp_size(kind: bytes, data: bytes) -> tuple[int, int] | None:
    """Read the size of the canvas, which a decoder allocates as it is opened."""
    match kind:
        case b"VP8X":
            return int.from_bytes(data[4:7], "little") + 1, int.from_bytes(data[7:10], "little") + 1
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 1)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 6)
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return None


# EXIF

_BYTE_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_ORIENTATION = 0x0112


def _orientation(exif: bytes) -> int:
    """Return the EXIF orientation; 1 (upright) if the EXIF is damaged, as viewers do."""
    tiff = exif.removeprefix(b"Exif\0\0")
    order = _BYTE_ORDERS.get(tiff[:4])
    if order is None:
        return 1
    try:
        (first,) = struct.unpack_from(f"{order}I", tiff, 4)
        (entries,) = struct.unpack_from(f"{order}H", tiff, first)
        for entry in range(entries):
            tag, value = struct.unpack_from(f"{order}H6xH", tiff, first + 2 + 12 * entry)
            if tag == _ORIENTATION:
                return value if value in range(1, 9) else 1
    except struct.error:
        pass
    return 1


_READERS: dict[str, Callable[[bytes], Picture]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
