"""Send sam thousands of inputs, most of them bad, and print what came of them as JSON: a process of its own for test_sam_flood.py."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
import resource
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from PIL import Image

from interlock import Interlock, Settings
from interlock.errors import InputError
from interlock_agents.sam.capabilities import Images, ModelBackend, ModelRequest, ModelResponse
from interlock_agents.sam.media.images import PillowImages
from interlock_agents.sam.state import InputProblem

PART = 500
MEGABYTES = 300
STATUS = Path("/proc/self/status")
REFUSED = {"input_empty", "input_too_large", "input_encoding", "input_schema"}


def saved(kind: str, size: tuple[int, int] = (12, 9), mode: str = "RGB", **options: Any) -> bytes:
    made = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert(mode).save(made, kind, **options)
    return made.getvalue()


def animation(kind: str) -> bytes:
    made = io.BytesIO()
    frames = [Image.new("RGB", (12, 9), colour) for colour in ("red", "blue")]
    frames[0].save(made, kind, save_all=True, append_images=frames[1:], duration=50)
    return made.getvalue()


def wav(samples: bytes, width: int = 2, channels: int = 1, rate: int = 8_000) -> bytes:
    form = struct.pack("<IHHIIHH", 16, 1, channels, rate, rate * width * channels, width * channels, width * 8)
    body = b"WAVEfmt " + form + b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


EXIF = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
SEEDS: list[tuple[str, bytes]] = [
    *(("image/png", saved("PNG", mode=mode)) for mode in ("RGB", "RGBA", "L", "LA", "P", "1", "I;16")),
    ("image/png", saved("PNG", exif=EXIF, icc_profile=b"profile")),
    ("image/png", animation("PNG")),
    *(("image/jpeg", saved("JPEG", mode=mode)) for mode in ("RGB", "L", "CMYK")),
    ("image/jpeg", saved("JPEG", progressive=True, exif=EXIF)),
    ("image/jpeg", saved("JPEG", restart_marker_blocks=1, subsampling=0)),
    *(("image/gif", saved("GIF", mode=mode)) for mode in ("P", "L")),
    ("image/gif", animation("GIF")),
    *(("image/webp", saved("WEBP", mode=mode, lossless=lossless)) for mode in ("RGB", "RGBA") for lossless in (True, False)),
    ("image/webp", saved("WEBP", exif=EXIF)),
    ("image/webp", animation("WEBP")),
    *(("audio/wav", wav(bytes(range(48)), width, channels)) for width in (1, 2, 3) for channels in (1, 2)),
    ("audio/mpeg", b"ID3\x03\0\0\0\0\0\0" + bytes(30)),
    ("audio/ogg", b"OggS\0\x02" + bytes(30)),
    ("audio/flac", b"fLaC\0\0\0\x22" + bytes(34)),
]
SIZES = {  # where a format says how large it is, and how
    "image/png": [(16, ">I"), (20, ">I")],
    "image/gif": [(6, "<H"), (8, "<H")],
    "image/webp": [(4, "<I"), (16, "<I"), (24, "<H"), (26, "<H"), (28, "<H")],
    "audio/wav": [(4, "<I"), (16, "<I"), (22, "<H"), (24, "<I"), (32, "<H"), (34, "<H"), (40, "<I")],
}
TYPES = ["image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp", "image/tiff", "audio/wav", "audio/mpeg", "audio/midi"]
OTHERS = ["text/plain", "application/pdf", "application/octet-stream", "video/mp4", "", "image/", "/png", "IMAGE/PNG", "x" * 300]


def resealed(content: bytearray) -> bytearray:
    """Write the checksums of a PNG anew, so that what is wrong in it is not found by them alone."""
    at = 8
    while at + 12 <= len(content):
        (size,) = struct.unpack_from(">I", content, at)
        end = at + 8 + size
        if end + 4 > len(content):
            break
        struct.pack_into(">I", content, end, zlib.crc32(content[at + 4 : end]))
        at = end + 4
    return content


@st.composite
def mutated(draw: Callable[..., Any]) -> str:
    """Take a real file and spoil it a little, a lot or not at all."""
    media_type, seeded = draw(st.sampled_from(SEEDS))
    content = bytearray(seeded)
    for _ in range(draw(st.integers(0, 4))):
        match draw(st.sampled_from(["flip", "size", "size", "cut", "insert", "frame"])):
            case "flip" if content:
                content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
            case "size" if media_type in SIZES:
                at, form = draw(st.sampled_from(SIZES[media_type]))
                most = 256 ** struct.calcsize(form) - 1
                if at + struct.calcsize(form) <= len(content):
                    struct.pack_into(form, content, at, draw(st.one_of(st.integers(0, most), st.integers(0, min(most, 9_000)))))
            case "frame" if media_type == "image/jpeg":
                at = max(content.find(b"\xff\xc0"), content.find(b"\xff\xc2"))
                if 0 <= at < len(content) - 9:
                    struct.pack_into(">HH", content, at + 5, draw(st.integers(0, 65_535)), draw(st.integers(0, 65_535)))
            case "cut":
                del content[draw(st.integers(0, len(content))) :]
            case "insert":
                at = draw(st.integers(0, len(content)))
                content[at:at] = draw(st.binary(max_size=20))
            case _:
                pass
    if media_type == "image/png" and draw(st.booleans()):
        content = resealed(content)
    declared = media_type if draw(st.integers(0, 9)) else draw(st.sampled_from([*TYPES, *OTHERS]))
    return f"data:{declared};base64,{base64.b64encode(content).decode()}"


TEXT = st.one_of(
    st.text(max_size=60),
    st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zs", "Mn"]), max_size=20),
    st.sampled_from(["", " ", "\0", "data:", "data:,", "x" * 33_000, "\ud800", "\u202e", '{"command": "failure"}', "\x1b[31m"]),
)
URIS = st.builds(
    "{}:{}{},{}".format,
    st.sampled_from(["data", "DATA", " data", "dat", "data:data"]),
    st.sampled_from([*TYPES, *OTHERS]),
    st.sampled_from(["", ";base64", ";BASE64", ";charset=utf-8;base64", ";base64;base64", ";=;", ";a=b;c=d"]),
    st.one_of(
        TEXT, st.binary(max_size=40).map(lambda raw: base64.b64encode(raw).decode()), st.binary(max_size=20).map(lambda raw: raw.hex("%"))
    ),
)


def noise(head: bytes, media_type: str, tail: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(head + tail).decode()}"


NOISE = st.builds(noise, st.sampled_from([content[:16] for _, content in SEEDS]), st.sampled_from(TYPES), st.binary(max_size=60))


def huge_png(width: int, height: int) -> str:
    content = bytearray(SEEDS[0][1])
    struct.pack_into(">II", content, 16, width, height)
    return f"data:image/png;base64,{base64.b64encode(resealed(content)).decode()}"


HUGE = st.builds(huge_png, st.integers(1, 2**31), st.integers(1, 2**31))
CLOSED: dict[str, st.SearchStrategy[Any]] = {"command": TEXT, "input_type": st.just("image"), "image": TEXT, "trace_id": TEXT}
GIVEN: dict[str, st.SearchStrategy[Any]] = {"raw_input": st.one_of(TEXT, st.integers(), st.none())}
FIELDS: st.SearchStrategy[Any] = st.one_of(st.binary(max_size=9), st.none(), st.integers(), st.fixed_dictionaries(GIVEN, optional=CLOSED))
INPUTS = st.one_of(mutated(), mutated(), mutated(), mutated(), URIS, NOISE, TEXT, FIELDS, HUGE)


class Counting:
    """A model that remembers how often it was asked, and nothing else: the images would fill the memory."""

    asked = 0

    async def generate(self, request: ModelRequest) -> ModelResponse:
        assert request.prompt.strip()
        self.asked += 1
        return ModelResponse(status="success", output="an answer")


class Flood:
    """sam, and a count of what came of every input."""

    def __init__(self) -> None:
        self.model = Counting()
        self.seen = Counter[str]()
        self.wrong: list[str] = []
        grants = {ModelBackend: self.model, Images: PillowImages(max_pixels=32_000_000)}
        self._app = Interlock(Settings.model_validate({"engine": "direct", "transcriber": "off", "log_level": "error"}), grants=grants)

    async def send(self, given: Any) -> None:
        before = self.model.asked
        try:
            result = await self._app.run("sam", given)
        except InputError as error:
            code, known, asked = error.code, error.code in REFUSED, 0
        else:
            code = "success" if result.error is None else result.error.code
            known, asked = code in {"success", *get_args(InputProblem)}, int(code == "success")
        self.seen[code] += 1
        if not known or self.model.asked - before != asked:
            self.wrong.append(f"{code}, asked {self.model.asked - before} times: {given!r:.300}")


def main(count: int) -> None:
    flood = Flood()
    with asyncio.Runner() as runner:
        for start in range(0, count, PART):
            # A part at a time: hypothesis remembers all that it has tried, which is more than sam takes.
            pour(lambda given: runner.run(flood.send(given)), first=start, count=min(PART, count - start))
    peak = megabytes()
    json.dump({"sent": flood.seen.total(), "seen": flood.seen, "wrong": flood.wrong[:20], "megabytes": peak}, sys.stdout)
    sys.exit(bool(flood.wrong) or peak >= MEGABYTES)


def megabytes() -> int:
    """Return how much memory this process took at most. What getrusage() says is that of its parent, where that was higher."""
    found = re.search(r"VmHWM:\s+(\d+)", STATUS.read_text()) if STATUS.exists() else None
    return int(found[1] if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) // 1024


def pour(send: Callable[[Any], None], *, first: int, count: int) -> None:
    @seed(first)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
    @given(INPUTS)
    def every(given: Any) -> None:
        send(given)

    every()


if __name__ == "__main__":
    main(int(sys.argv[1]))
