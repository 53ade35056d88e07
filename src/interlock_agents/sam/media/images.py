"""Images by Pillow in child processes: checked, upright, without metadata, small."""

from __future__ import annotations

import asyncio
import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from interlock.errors import MediaBomb, MediaMalformed, MediaUnsupported
from interlock.processes.child import Child

__all__ = ["DECODE_S", "PillowImages"]

DECODE_S = 30.0
"""How long decoding may take, in seconds. Then the process is killed."""

_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "131072"}  # glibc then returns large blocks to the system, so that they do not add up
_DECODERS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="interlock-images")
"""At most two images are decoded at once, even after a caller was cancelled."""


class PillowImages:
    """Takes PNG, JPEG, GIF and WebP; returns JPEG, or PNG where there is transparency. Of an animation it takes the first frame.

    Pillow runs in a child process with a memory limit, because a small file can make a decoder allocate gigabytes or run for
    minutes, and neither can be stopped in a thread. A process is used again for the next image.
    """

    def __init__(self, *, max_pixels: int) -> None:
        self._max_pixels = max_pixels
        self._idle: list[Child] = []
        self._busy: set[Child] = set()

    async def normalise(self, image: bytes, *, media_type: str) -> str:
        """Return the image as a data URI, upright, without metadata, at most 1024 pixels on its longer side."""
        if media_type not in _FORMATS:
            raise MediaUnsupported(f"Images of type '{media_type}' are not taken. Send one of {', '.join(_FORMATS)}.")
        answer = await asyncio.get_running_loop().run_in_executor(_DECODERS, self._decode, image, _FORMATS[media_type])
        match answer:
            case {"uri": str(uri)}:
                return uri
            case {"failed": "bomb", "reason": str(reason)}:
                raise MediaBomb(f"The image cannot be decoded: {reason}.")
            case {"failed": "late"}:
                raise MediaBomb(f"The image takes longer than {DECODE_S:g} s to decode.")
            case _:
                reason = answer.get("reason", "the decoder crashed")
                raise MediaMalformed(f"The '{media_type}' cannot be decoded: {reason}.")

    async def aclose(self) -> None:
        """End the processes. A later image starts a new one."""
        for child in (*self._idle, *self._busy):
            child.kill()
        self._idle.clear()

    def _decode(self, image: bytes, kind: str) -> dict[str, Any]:
        child = self._child()
        self._busy.add(child)
        try:
            return child.ask({"image": base64.b64encode(image).decode(), "format": kind}, within=DECODE_S)
        finally:
            self._busy.discard(child)
            if child.is_ours():
                self._idle.append(child)

    def _child(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.is_ours():
                return child
        given = {"max_pixels": self._max_pixels}
        child = Child("interlock_agents.sam.media.pillow_main", Path("-"), given, needs="PIL", sets=_MALLOC)
        if "failed" in child.hello:
            raise MediaUnsupported("Pillow cannot be started. Run: pip install --force-reinstall 'interlock[sam]'")
        return child
