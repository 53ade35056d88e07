"""Images by Pillow: checked, upright, without metadata, small."""

from __future__ import annotations

import asyncio
import base64
import io
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

from interlock.errors import CapabilityError, MediaBomb, MediaMalformed
from interlock_agents.sam.media.containers import Picture, unwrap

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["MAX_SIDE", "PillowImages"]

MAX_SIDE = 1024
"""The maximum length in pixels of the longer side of a picture sent to a model."""

_DECODERS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="interlock-images")
"""At most two decode at once, even after a caller was cancelled: a thread cannot be stopped, and each may hold a whole picture."""

_BAND = 1_000_000  # pixels that are converted at once: a picture is never held in two modes at full size
_PIXEL = 4  # bytes of a pixel in an image of Pillow's
_QUALITY = 90


class PillowImages:
    """Takes PNG, JPEG, GIF and WebP; returns JPEG, or PNG where there is transparency. Of an animation it takes the first frame."""

    def __init__(self, *, max_pixels: int) -> None:
        self._max_pixels = max_pixels

    async def normalise(self, image: bytes, *, media_type: str) -> str:
        """Return the image as a data URI, upright, without metadata, at most 1024 pixels on its longer side."""
        return await asyncio.get_running_loop().run_in_executor(_DECODERS, self._normalise, image, media_type)

    def _normalise(self, image: bytes, media_type: str) -> str:
        picture = unwrap(image, media_type=media_type)
        shrink = _shrink(picture) if media_type == "image/jpeg" else 1
        unpacked = max(picture.pixels // shrink**2, int(picture.pixels * picture.held / _PIXEL))
        if unpacked > self._max_pixels:
            raise MediaBomb(f"The image takes the memory of {unpacked:,} pixels to unpack; {self._max_pixels:,} are taken.")
        problem: CapabilityError
        try:
            made_type, made = _encoded(_upright(_small(picture, media_type, shrink), picture.orientation))
            return f"data:{made_type};base64,{base64.b64encode(made).decode()}"
        except CapabilityError:
            raise
        except MemoryError:
            problem = MediaBomb("The image takes more memory than there is.")
        except Exception as error:  # noqa: BLE001 - at bad input Pillow raises OSError, SyntaxError, ValueError and more
            problem = MediaMalformed(f"The '{media_type}' cannot be decoded: {type(error).__name__}.")
        # Raised here and not above: chained to Pillow's error it would quote the input, and keep the unfinished picture alive.
        raise problem


def _shrink(picture: Picture) -> int:
    """Return the factor by which a JPEG is reduced while decoding, so that a large photograph is never held at full size."""
    longest = max(picture.width, picture.height)
    return next((by for by in (8, 4, 2) if longest >= by * MAX_SIDE), 1)


def _small(picture: Picture, media_type: str, shrink: int) -> Image:
    """Decode and shrink the picture into a new image without metadata."""
    from PIL import Image  # noqa: PLC0415 - most turns have no image
    from PIL.GifImagePlugin import GifImageFile  # noqa: PLC0415
    from PIL.JpegImagePlugin import JpegImageFile  # noqa: PLC0415
    from PIL.PngImagePlugin import PngImageFile  # noqa: PLC0415
    from PIL.WebPImagePlugin import WebPImageFile  # noqa: PLC0415

    # Not Image.open(): it warns of large images, also of those that are shrunk on load, and warnings are the whole process's.
    readers = {"image/png": PngImageFile, "image/jpeg": JpegImageFile, "image/gif": GifImageFile, "image/webp": WebPImageFile}
    with closing(readers[media_type](io.BytesIO(picture.content))) as opened:  # frees the pixels too, which its own `with` does not
        if opened.size != (picture.width, picture.height):
            raise MediaMalformed(f"The '{media_type}' declares two sizes.")
        if shrink > 1:
            opened.draft(None, (max(1, picture.width // shrink), max(1, picture.height // shrink)))
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
    longest = max(picture.width, picture.height)
    if longest <= MAX_SIDE:
        return small
    target = (max(1, round(picture.width * MAX_SIDE / longest)), max(1, round(picture.height * MAX_SIDE / longest)))
    return small.resize(target, Image.Resampling.LANCZOS)


def _upright(image: Image, orientation: int) -> Image:
    """Rotate or mirror a picture as its EXIF orientation says."""
    from PIL.Image import Transpose  # noqa: PLC0415

    ways = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return image.transpose(ways[orientation]) if orientation in ways else image


def _encoded(image: Image) -> tuple[str, bytes]:
    """Encode as PNG if the picture has transparency, otherwise as JPEG."""
    made = io.BytesIO()
    if image.mode == "RGBA" and image.getchannel("A").getextrema() != (255, 255):
        image.save(made, "PNG")
        return "image/png", made.getvalue()
    image.convert("RGB").save(made, "JPEG", quality=_QUALITY)
    return "image/jpeg", made.getvalue()
