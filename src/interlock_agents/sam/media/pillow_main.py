"""The main module of a child process that decodes images with Pillow, one after the other, within a memory limit."""

from __future__ import annotations

import base64
import binascii
import io
import warnings
from typing import Any

from PIL import ExifTags, Image, ImageOps, PngImagePlugin
from PIL.ImageFile import ImageFile

from interlock.processes.child_main import bound_files, bound_memory, used_memory

__all__ = ["MAX_METADATA", "MAX_SCANS", "MAX_SIDE", "begin"]

MAX_SIDE = 1024
"""The maximum length in pixels of the longer side of a picture sent to a model."""

MAX_METADATA = 4 * 1024 * 1024
"""How many bytes the compressed metadata of a PNG may inflate to. It is dropped, but a larger one is not an honest picture."""

MAX_SCANS = 100
"""How many scans a JPEG may have: ten are usual, and a few bytes are enough for one that takes as long as all pixels."""

_PIXEL = 4  # bytes of a pixel in an image of Pillow's
_WEBP_PIXEL = 16  # the same for a WebP: two canvases, the frame as bytes, and the image; measured
_BESIDES = 96 * 1024 * 1024  # for the file, its metadata, a band of pixels and the encoded result
_BAND = 1_000_000  # pixels that are converted at once: a picture is never held in two modes at full size
_QUALITY = 90
_ENDS = {"PNG": b"IEND\xaeB`\x82", "JPEG": b"\xff\xd9"}  # Pillow accepts a file without it
_JPEG_SCAN = b"\xff\xda"
_BOMBS = ("PngImagePlugin.MAX_TEXT_CHUNK", "Too much memory used in text chunks")  # what Pillow's errors say


class _Bomb(Exception):
    """The image takes more memory or time than it may."""


def begin(file: str, given: dict[str, Any]) -> _Decoder:
    """Set the limits of Pillow and of the process."""
    del file
    Image.init()
    Image.MAX_IMAGE_PIXELS = None  # the memory that a decoder needs is checked instead
    PngImagePlugin.MAX_TEXT_CHUNK = PngImagePlugin.MAX_TEXT_MEMORY = MAX_METADATA
    warnings.simplefilter("ignore")
    bound_memory(used_memory() + given["max_pixels"] * _PIXEL + _BESIDES)
    bound_files(0)
    return _Decoder(given["max_pixels"])


class _Decoder:
    """Answers one image after another: with a data URI, or with the name and the reason of a failure."""

    def __init__(self, max_pixels: int) -> None:
        self.hello: dict[str, Any] = {}
        self._max_pixels = max_pixels

    def answer(self, request: dict[str, str]) -> dict[str, Any]:
        """Decode an image and encode it again: upright, small, without metadata."""
        try:
            return {"uri": self._normalised(base64.b64decode(request["image"]), request["format"])}
        except _Bomb as error:
            return {"failed": "bomb", "reason": str(error)}
        except MemoryError:
            return {"failed": "bomb", "reason": "it takes more memory than there is"}
        except Exception as error:  # noqa: BLE001 - at bad input Pillow raises OSError, SyntaxError, ValueError and more
            kind = "bomb" if any(words in str(error) for words in _BOMBS) else "malformed"
            return {"failed": kind, "reason": type(error).__name__}  # the error itself may quote the input

    def close(self) -> None:
        """Do nothing: no file is open."""

    def _normalised(self, content: bytes, kind: str) -> str:
        if _ENDS.get(kind, b"") not in content:
            raise EOFError
        if kind == "JPEG" and content.count(_JPEG_SCAN) > MAX_SCANS:
            raise _Bomb(f"it has more than {MAX_SCANS} scans")
        if kind == "WEBP":
            self._check(*_webp_size(content), pixel=_WEBP_PIXEL)  # Pillow allocates the canvases while it opens the file
        with Image.open(io.BytesIO(content), formats=[kind]) as opened:
            opened.verify()  # checks the checksums of a PNG
        with Image.open(io.BytesIO(content), formats=[kind]) as opened:
            full = opened.size
            self._check_decoder(opened)
            orientation = opened.getexif().get(ExifTags.Base.Orientation, 1)
            small = _small(opened)
        if max(full) > MAX_SIDE:
            small = small.resize([max(1, round(side * MAX_SIDE / max(full))) for side in full], Image.Resampling.LANCZOS)
        if orientation in range(2, 9):
            small.getexif()[ExifTags.Base.Orientation] = orientation
            small = ImageOps.exif_transpose(small)
        return _encoded(small)

    def _check_decoder(self, opened: ImageFile) -> None:
        """Refuse an image that takes too much memory to decode, and let Pillow shrink a large JPEG while it decodes it."""
        width, height = opened.size
        if opened.format == "JPEG":
            shrink = next((by for by in (8, 4, 2) if max(width, height) >= by * MAX_SIDE), 1)
            if opened.info.get("progressive"):  # two bytes for each sample are held until the last scan is read
                layers: list[tuple[int, int, int, int]] = getattr(opened, "layer")  # noqa: B009 - of a JPEG only
                samplings = [(across, down) for _, across, down, _ in layers]
                whole = max(across for across, _ in samplings) * max(down for _, down in samplings)
                self._check(width, height, pixel=2 * sum(across * down for across, down in samplings) / whole)
            if shrink > 1:
                opened.draft(None, (max(1, width // shrink), max(1, height // shrink)))
        self._check(*opened.size)

    def _check(self, width: int, height: int, *, pixel: float = _PIXEL) -> None:
        taken = int(width * height * pixel / _PIXEL)
        if taken > self._max_pixels:
            raise _Bomb(f"it takes the memory of {taken:,} pixels to unpack, and the limit is {self._max_pixels:,}")


def _webp_size(content: bytes) -> tuple[int, int]:
    """Return the size that a WebP declares in its first chunk."""
    match content[12:16]:
        case b"VP8X":
            return int.from_bytes(content[24:27], "little") + 1, int.from_bytes(content[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(content[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case _:
            return int.from_bytes(content[26:28], "little") & 0x3FFF, int.from_bytes(content[28:30], "little") & 0x3FFF


def _small(opened: ImageFile) -> Image.Image:
    """Decode and shrink the picture into a new image without metadata, by a whole number, to at least the size that is wanted."""
    width, height = opened.size
    by = max(1, max(width, height) // MAX_SIDE)
    mode = "RGBA" if opened.has_transparency_data and opened.mode != "I;16" else "RGB"
    small = Image.new(mode, (-(-width // by), -(-height // by)))
    rows = max(1, _BAND // (width * by))
    for top in range(0, small.height, rows):
        band = opened.crop((0, top * by, width, min(height, (top + rows) * by)))
        if band.mode == "I;16":  # convert() cuts these off at 255
            band = band.point(lambda value: value / 256, "L")
        small.paste(band.convert(mode).reduce(by), (0, top))
    return small


def _encoded(image: Image.Image) -> str:
    """Encode as PNG if the picture has transparency, otherwise as JPEG, and return a data URI."""
    made = io.BytesIO()
    if image.mode == "RGBA" and image.getchannel("A").getextrema() != (255, 255):
        kind = "PNG"
        image.save(made, kind)
    else:
        kind = "JPEG"
        image.convert("RGB").save(made, kind, quality=_QUALITY)
    return f"data:image/{kind.lower()};base64,{binascii.b2a_base64(made.getvalue(), newline=False).decode()}"
