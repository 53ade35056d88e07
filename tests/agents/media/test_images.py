from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import io
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from interlock.errors import MediaBomb, MediaMalformed, MediaUnsupported
from interlock.processes.child import Child
from interlock_agents.sam.media import images, pillow_main
from interlock_agents.sam.media.images import PillowImages
from interlock_agents.sam.media.pillow_main import MAX_METADATA, MAX_SCANS

CANARY = "hunter2-is-the-canary"
TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
MILLION = 1_000_000


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    made = io.BytesIO()
    image.save(made, kind, **options)
    return made.getvalue()


@functools.cache
def adapter(max_pixels: int) -> PillowImages:
    """Return the adapter of all tests with this limit, so that they share its processes."""
    return PillowImages(max_pixels=max_pixels)


async def made_of(content: bytes, media_type: str, *, max_pixels: int = 32 * MILLION) -> Image.Image:
    """Normalise an image and open the result, after checking what every result must be."""
    uri = await adapter(max_pixels).normalise(content, media_type=media_type)
    head, _, payload = uri.partition(",")
    result = base64.b64decode(payload, validate=True)
    assert CANARY.encode() not in result
    opened = Image.open(io.BytesIO(result))
    assert head == f"data:{TYPES[opened.format or '']};base64"
    assert opened.format in {"PNG", "JPEG"}
    assert getattr(opened, "n_frames", 1) == 1
    assert max(opened.size) <= 1024
    assert not opened.getexif()
    assert set(opened.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
    opened.load()
    return opened


def near(found: Any, wanted: tuple[int, ...]) -> bool:
    return all(abs(a - b) < 40 for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("kind", TYPES)
async def test_an_image_is_decoded_and_encoded_again(kind: str):
    image = Image.new("RGB", (60, 40), "red")
    image.paste("blue", (0, 0, 30, 40))
    made = await made_of(saved(image, kind), TYPES[kind])
    assert (made.size, made.format) == ((60, 40), "JPEG")
    assert near(made.getpixel((10, 20)), (0, 0, 255))
    assert near(made.getpixel((50, 20)), (255, 0, 0))


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ((1, 1), (1, 1)),
        ((1024, 1024), (1024, 1024)),
        ((1025, 10), (1024, 10)),
        ((2047, 500), (1024, 250)),
        ((2048, 1024), (1024, 512)),
        ((300, 5000), (61, 1024)),
        ((50_000, 1), (1024, 1)),
        ((1, 50_000), (1, 1024)),
    ],
)
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF"])
async def test_the_longer_side_is_scaled_to_at_most_1024_and_never_scaled_up(given: tuple[int, int], size: tuple[int, int], kind: str):
    assert (await made_of(saved(Image.new("RGB", given, "red"), kind), TYPES[kind])).size == size


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
async def test_every_colour_mode_is_scaled_without_visible_bands(mode: str):
    """In bands, so the seams between them are looked at too."""
    image = Image.linear_gradient("L").resize((3000, 2500))
    image = image.point(lambda value: value * 257, "I").convert("I;16") if mode == "I;16" else image.convert(mode)
    made = (await made_of(saved(image, "PNG"), "image/png")).convert("L")
    assert made.size == (1024, 853)
    column = [made.resize((1, 853), Image.Resampling.BOX).getpixel((0, y)) for y in range(853)]
    assert all(isinstance(value, int) and abs(value - y * 255 / 852) < 12 for y, value in enumerate(column))


@pytest.mark.parametrize(("mode", "options"), [("RGBA", {}), ("LA", {}), ("P", {"transparency": 0}), ("L", {"transparency": 0})])
async def test_transparency_is_kept(mode: str, options: dict[str, Any]):
    image = Image.new("RGBA", (2100, 100), (0, 0, 0, 0)).convert(mode) if not options else Image.new(mode, (2100, 100), 0)
    image.paste(Image.new("RGBA", (1050, 100), (255, 255, 255, 255)).convert(mode) if not options else 200, (0, 0, 1050, 100))
    made = await made_of(saved(image, "PNG", **options), "image/png")
    assert (made.format, made.mode) == ("PNG", "RGBA")
    assert [made.getpixel((x, 20))[3] for x in (10, 1000)] == [255, 0]  # pyright: ignore[reportIndexIssue, reportOptionalSubscript]


async def test_an_alpha_channel_without_transparency_is_dropped():
    assert (await made_of(saved(Image.new("RGBA", (9, 9), "red"), "PNG"), "image/png")).format == "JPEG"


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
async def test_an_image_is_rotated_as_its_exif_orientation_says(orientation: int, kind: str):
    """The corners are red, green, blue and white; upright they stand as the camera saw them."""
    upright = Image.new("RGB", (80, 40))
    corners = {(0, 0): (255, 0, 0), (40, 0): (0, 255, 0), (0, 20): (0, 0, 255), (40, 20): (255, 255, 255)}
    for (x, y), colour in corners.items():
        upright.paste(colour, (x, y, x + 40, y + 20))
    way = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,  # the sensor was turned clockwise, so the picture lies counter-clockwise
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }.get(orientation)
    exif = Image.Exif()
    exif[0x0112] = orientation
    lying = upright if way is None else upright.transpose(way)
    made = await made_of(saved(lying, kind, exif=exif), TYPES[kind])
    assert made.size == (80, 40)
    for (x, y), colour in corners.items():
        assert near(made.convert("RGB").getpixel((x + 20, y + 10)), colour)


def photograph(kind: str) -> bytes:
    """Make an image that says a lot about where it comes from."""
    exif = Image.Exif()
    exif[0x010E] = exif[0x9C9C] = CANARY
    gps = exif.get_ifd(0x8825)
    gps[29] = CANARY
    gps[2] = (52.0, 31.0, 12.0)
    options: dict[str, Any] = {"exif": exif, "icc_profile": CANARY.encode() * 9, "xmp": f"<x>{CANARY}</x>".encode()}
    if kind == "PNG":
        text = PngImagePlugin.PngInfo()
        text.add_text("Comment", CANARY)
        text.add_itxt("Author", CANARY, zip=True)
        options["pnginfo"] = text
    if kind in {"JPEG", "GIF"}:
        options["comment"] = CANARY.encode()
    return saved(Image.effect_noise((40, 40), 90).convert("P" if kind == "GIF" else "RGB"), kind, **options)


@pytest.mark.parametrize("kind", TYPES)
async def test_metadata_is_removed(kind: str):
    content = photograph(kind)
    assert CANARY.encode() in content
    await made_of(content, TYPES[kind])  # looks for the canary


async def test_metadata_is_removed_from_an_image_that_stays_a_png():
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", CANARY)
    content = saved(Image.new("RGBA", (9, 9), (1, 2, 3, 4)), "PNG", pnginfo=text, icc_profile=CANARY.encode() * 9)
    assert (await made_of(content, "image/png")).format == "PNG"


@pytest.mark.parametrize("kind", ["PNG", "GIF", "WEBP"])
async def test_the_first_frame_of_an_animation_is_used(kind: str):
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "lime", "blue")]
    made = await made_of(saved(frames[0], kind, save_all=True, append_images=frames[1:], duration=100), TYPES[kind])
    assert near(made.getpixel((8, 8)), (255, 0, 0))


# Bombs


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_with(*extra: bytes) -> bytes:
    """Return a PNG with these chunks after its header."""
    whole = saved(Image.effect_noise((16, 8), 90), "PNG")
    return whole[:33] + b"".join(extra) + whole[33:]


def segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content


def jpeg_with(*extra: bytes) -> bytes:
    """Return a JPEG with these segments after its start."""
    whole = saved(Image.effect_noise((16, 8), 90), "JPEG")
    return whole[:2] + b"".join(extra) + whole[2:]


def png_header(width: int, height: int) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


def gif_header(width: int, height: int) -> bytes:
    content = bytearray(saved(Image.new("P", (8, 8)), "GIF"))
    struct.pack_into("<HH", content, 6, width, height)
    return bytes(content)


def webp_header(width: int, height: int) -> bytes:
    content = bytearray(saved(Image.new("RGBA", (8, 8), (1, 2, 3, 4)), "WEBP", exif=b"Exif\0\0"))
    assert content[12:16] == b"VP8X"
    content[24:30] = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return bytes(content)


def jpeg_header(width: int, height: int, **options: Any) -> bytes:
    content = bytearray(saved(Image.new("RGB", (16, 16)), "JPEG", **options))
    frame = next(content.find(marker) for marker in (b"\xff\xc0", b"\xff\xc2") if marker in content)
    struct.pack_into(">HH", content, frame + 5, height, width)
    return bytes(content)


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a PNG": ("image/png", lambda: png_header(60_000, 60_000)),
    "the widest PNG": ("image/png", lambda: png_header(2**31 - 1, 2**31 - 1)),
    "a GIF": ("image/gif", lambda: gif_header(60_000, 60_000)),
    "a WebP": ("image/webp", lambda: webp_header(60_000, 60_000)),
    "the widest WebP": ("image/webp", lambda: webp_header(2**24, 2**24)),
    "a JPEG that shrinking does not help": ("image/jpeg", lambda: jpeg_header(65_000, 65_000)),
    "a progressive JPEG": ("image/jpeg", lambda: jpeg_header(8_000, 8_000, progressive=True)),
}


@pytest.mark.parametrize(("media_type", "make"), BOMBS.values(), ids=BOMBS.keys())
async def test_a_small_file_that_declares_a_huge_image_is_a_bomb(media_type: str, make: Callable[[], bytes]):
    with pytest.raises(MediaBomb) as caught:
        await made_of(make(), media_type)
    assert caught.value.code == "media_bomb"


async def test_a_photograph_of_50_megapixels_is_accepted():
    await made_of(saved(Image.linear_gradient("L").resize((8660, 5774)), "JPEG"), "image/jpeg")


async def test_an_image_of_exactly_the_limit_is_accepted():
    content = saved(Image.new("RGB", (100, 100)), "PNG")
    await made_of(content, "image/png", max_pixels=10_000)
    with pytest.raises(MediaBomb):
        await made_of(content, "image/png", max_pixels=9_999)


async def test_a_large_jpeg_counts_at_its_reduced_size():
    content = saved(Image.new("L", (8192, 100)), "JPEG")
    await made_of(content, "image/jpeg", max_pixels=1024 * 13)
    with pytest.raises(MediaBomb):
        await made_of(content, "image/jpeg", max_pixels=1024 * 12)


@pytest.mark.parametrize(
    ("kind", "options", "limit"),
    [("WEBP", {}, 4), ("JPEG", {"progressive": True, "subsampling": 0}, 1.5), ("JPEG", {"progressive": True}, 0.75)],
)
async def test_an_image_whose_decoder_needs_more_memory_counts_for_more(kind: str, options: dict[str, Any], limit: float):
    content = saved(Image.new("RGB", (8_000, 100)), kind, **options)
    await made_of(content, TYPES[kind], max_pixels=int(800_000 * limit))
    with pytest.raises(MediaBomb):
        await made_of(content, TYPES[kind], max_pixels=int(800_000 * limit) - 1)


LARGEST: dict[str, tuple[str, str, float, dict[str, Any]]] = {
    "PNG": ("PNG", "RGB", 1, {}),
    "PNG with a palette": ("PNG", "P", 1, {"transparency": 3}),
    "GIF": ("GIF", "RGB", 1, {}),
    "WebP": ("WEBP", "RGB", 4, {}),
    "progressive JPEG": ("JPEG", "RGB", 1.5, {"progressive": True, "subsampling": 0}),
}


@pytest.mark.parametrize(("kind", "mode", "share", "options"), LARGEST.values(), ids=LARGEST.keys())
async def test_the_largest_image_of_every_kind_is_decoded_within_the_memory_limit(
    kind: str, mode: str, share: float, options: dict[str, Any]
):
    side = int((32 * MILLION / share) ** 0.5)
    await made_of(saved(Image.linear_gradient("L").resize((side, side)).convert(mode), kind, **options), TYPES[kind])


async def test_a_decoder_that_exceeds_the_memory_limit_does_not_affect_this_process():
    """A JPEG whose colours are in separate scans is held in full, which its header does not say."""
    content = bytearray(jpeg_header(30_000, 30_000))
    scan = content.index(b"\xff\xda")
    content[scan:scan] = segment(0xDA, b"\x01\x01\x00\x00\x3f\x00")
    with pytest.raises((MediaBomb, MediaMalformed)):
        await made_of(bytes(content), "image/jpeg")
    await made_of(saved(Image.new("RGB", (8, 8)), "PNG"), "image/png")


def limits_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return {line[:26].strip(): line[26:].split()[0] for line in lines}


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="only Linux shows the limits of a process")
async def test_the_process_has_a_memory_limit_and_cannot_write_files():
    own = PillowImages(max_pixels=MILLION)
    await own.normalise(saved(Image.new("RGB", (8, 8)), "PNG"), media_type="image/png")
    (child,) = own._idle  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
    limits = limits_of(child.pid)
    await own.aclose()
    assert 4 * MILLION < int(limits["Max data size"]) < 500 * MILLION
    assert limits["Max file size"] == "0"


def inflating(kind: bytes, head: bytes, size: int) -> bytes:
    return chunk(kind, head + zlib.compress(bytes(size), 9))


METADATA_BOMBS = {
    "text": (inflating(b"zTXt", b"Comment\0\0", MAX_METADATA + 1),),
    "international text": (inflating(b"iTXt", b"Comment\0\x01\0\0\0", MAX_METADATA + 1),),
    "colour profile": (inflating(b"iCCP", b"icc\0\0", MAX_METADATA + 1),),
    "many small texts": (inflating(b"zTXt", b"Comment\0\0", MAX_METADATA // 4),) * 5,
}


@pytest.mark.parametrize("chunks", METADATA_BOMBS.values(), ids=METADATA_BOMBS.keys())
async def test_metadata_that_inflates_beyond_the_limit_is_a_bomb(chunks: tuple[bytes, ...]):
    with pytest.raises(MediaBomb):
        await made_of(png_with(*chunks), "image/png")


async def test_metadata_that_is_not_zlib_is_malformed_or_dropped():
    with contextlib.suppress(MediaMalformed):
        await made_of(png_with(chunk(b"zTXt", b"Comment\0\0no zlib")), "image/png")


@pytest.mark.parametrize("scans", [MAX_SCANS, MAX_SCANS + 1])
async def test_a_jpeg_with_too_many_scans_is_a_bomb(scans: int):
    content = saved(Image.new("RGB", (16, 16)), "JPEG", progressive=True)
    more = scans - content.count(b"\xff\xda")
    content = content[:-2] + segment(0xDA, b"\x01\x01\x00\x00\x3f\x00") * more + content[-2:]
    if scans > MAX_SCANS:
        with pytest.raises(MediaBomb, match="scans"):
            await made_of(content, "image/jpeg")
    else:
        with contextlib.suppress(MediaMalformed):
            await made_of(content, "image/jpeg")


async def test_a_gif_whose_first_frame_exceeds_its_screen_is_a_bomb():
    content = bytearray(saved(Image.new("P", (8, 8)), "GIF"))
    frame = content.index(b",", 13 + (3 << (content[10] & 7) + 1))
    struct.pack_into("<HH", content, frame + 1, 60_000, 50_000)
    with pytest.raises(MediaBomb):
        await made_of(bytes(content), "image/gif")


async def test_a_gif_that_restores_a_huge_background_is_a_bomb():
    """Pillow fills the background while it opens the file."""
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "lime")]
    content = bytearray(saved(frames[0], "GIF", save_all=True, append_images=frames[1:], disposal=2, duration=10))
    frame = content.index(b",", content.index(b"!\xf9\x04"))
    struct.pack_into("<HH", content, 6, 60_000, 60_000)
    struct.pack_into("<HH", content, frame + 5, 60_000, 60_000)
    with pytest.raises(MediaBomb):
        await made_of(bytes(content), "image/gif")


async def test_exif_whose_entries_all_point_to_the_same_bytes_gets_a_typed_error_or_an_image():
    entries = b"".join(struct.pack("<HHII", 0x1000 + tag, 7, 60_000, 8) for tag in range(5_000))
    block = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 5_000) + entries
    with contextlib.suppress(MediaBomb, MediaMalformed):
        await made_of(jpeg_with(segment(0xE1, block)), "image/jpeg")


@pytest.mark.parametrize("block", [b"", b"MM", b"MM\0*", b"MM\0*\xff\xff\xff\xff", b"II*\0\x08\0\0\0\xff\xff"])
async def test_an_image_with_damaged_exif_is_taken_as_upright(block: bytes):
    made = await made_of(jpeg_with(segment(0xE1, b"Exif\0\0" + block)), "image/jpeg")
    assert made.size == (16, 8)


def test_running_out_of_memory_is_a_bomb(monkeypatch: pytest.MonkeyPatch):
    assert failing(monkeypatch, MemoryError())["failed"] == "bomb"


async def test_a_decoder_that_takes_too_long_is_killed_and_the_image_is_a_bomb(monkeypatch: pytest.MonkeyPatch):
    own = PillowImages(max_pixels=MILLION)
    monkeypatch.setattr(images, "DECODE_S", 0.0001)
    with pytest.raises(MediaBomb, match="takes longer"):
        await own.normalise(saved(Image.effect_noise((900, 900), 90), "PNG"), media_type="image/png")
    monkeypatch.setattr(images, "DECODE_S", 30.0)
    await own.normalise(saved(Image.new("L", (8, 8)), "PNG"), media_type="image/png")
    await own.aclose()


# Bad input


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("other", TYPES)
async def test_content_of_another_type_than_declared_is_malformed(kind: str, other: str):
    content = saved(Image.new("RGB", (8, 8)), kind)
    if kind == other:
        await made_of(content, TYPES[other])
    else:
        with pytest.raises(MediaMalformed):
            await made_of(content, TYPES[other])


@pytest.mark.parametrize("media_type", ["image/tiff", "image/bmp", "image/svg+xml", "image/avif", "image/x-icon"])
async def test_another_media_type_is_unsupported(media_type: str):
    with pytest.raises(MediaUnsupported):
        await made_of(b"II*\0", media_type)


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> dict[str, Any]:
    """Return the answer of the decoder if Pillow raises this error."""

    def explode(*_: object) -> None:
        raise error

    monkeypatch.setattr(pillow_main, "_small", explode)
    content = saved(Image.new("L", (8, 8)), "PNG")
    decoder = pillow_main._Decoder(MILLION)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
    return decoder.answer({"image": base64.b64encode(content).decode(), "format": "PNG"})


@pytest.mark.parametrize("error", [OSError(CANARY), SyntaxError(CANARY), ValueError(CANARY), Warning(CANARY), RecursionError(CANARY)])
def test_the_text_of_an_error_of_pillow_is_not_passed_on(monkeypatch: pytest.MonkeyPatch, error: Exception):
    assert failing(monkeypatch, error) == {"failed": "malformed", "reason": type(error).__name__}


NO_PICTURES = {
    "image/png": [b"", b"\x89PNG", b"\x89PNG\r\n\x1a\n", b"not a picture"],
    "image/jpeg": [b"", b"\xff\xd8\xff", b"\xff\xd8\xff\xd9", b"not a picture", b"\xff\xd8\xff" + b"\xff" * 200_000],
    "image/gif": [b"", b"GIF89a", b"GIF89a\x01\0\x01\0\0\0\0;", b"not a picture"],
    "image/webp": [b"", b"RIFF\0\0\0\0WEBP", b"RIFF\x04\0\0\0WEBP", b"not a picture"],
}


@pytest.mark.parametrize(("media_type", "content"), [(kind, content) for kind, cases in NO_PICTURES.items() for content in cases])
async def test_a_file_without_an_image_is_malformed(media_type: str, content: bytes):
    with pytest.raises(MediaMalformed) as caught:
        await made_of(content, media_type)
    assert caught.value.code == "media_malformed"


@pytest.mark.parametrize("kind", TYPES)
async def test_an_image_without_pixels_is_malformed(kind: str):
    content = bytearray(saved(Image.new("RGB", (8, 8)), kind))
    match kind:
        case "PNG":
            content[8:33] = chunk(b"IHDR", struct.pack(">II", 0, 5) + bytes(content[24:29]))
        case "JPEG":
            struct.pack_into(">H", content, content.index(b"\xff\xc0") + 5, 0)
        case "GIF":
            struct.pack_into("<H", content, content.index(b",", 13 + (3 << (content[10] & 7) + 1)) + 5, 0)
        case _:
            struct.pack_into("<H", content, 26, 0)
    with pytest.raises(MediaMalformed):
        await made_of(bytes(content), TYPES[kind])


async def test_a_png_with_a_wrong_checksum_is_malformed():
    content = bytearray(png_with())
    content[content.index(b"IDAT") + 6] ^= 1
    with pytest.raises(MediaMalformed):
        await made_of(bytes(content), "image/png")


SEEDS = {
    TYPES[kind]: saved(Image.effect_noise((24, 24), 90).convert("P" if kind == "GIF" else "RGB"), kind, **options)
    for kind, options in {"PNG": {}, "JPEG": {"progressive": True}, "GIF": {}, "WEBP": {"exif": b"Exif\0\0MM\0*"}}.items()
}


@settings(max_examples=200)
@given(media_type=st.sampled_from(sorted(SEEDS)), data=st.data())
def test_a_file_that_is_cut_off_is_malformed(media_type: str, data: st.DataObject):
    content = SEEDS[media_type]
    cut = data.draw(st.integers(0, len(content) - 3))
    with pytest.raises(MediaMalformed):
        asyncio.run(made_of(content[:cut], media_type))


@settings(max_examples=300)
@given(media_type=st.sampled_from(sorted(SEEDS)), data=st.data())
def test_flipped_bytes_are_an_image_or_a_typed_error(media_type: str, data: st.DataObject):
    content = bytearray(SEEDS[media_type])
    for at, value in data.draw(st.dictionaries(st.integers(0, len(content) - 1), st.integers(0, 255), max_size=8)).items():
        content[at] = value
    if media_type == "image/png" and data.draw(st.booleans()):  # or the checksums find it all
        content = bytearray(resealed(bytes(content)))
    with contextlib.suppress(MediaMalformed):
        asyncio.run(made_of(bytes(content), media_type, max_pixels=MILLION))


def resealed(content: bytes) -> bytes:
    """Write the checksums of a PNG anew, as far as its chunks can be walked."""
    made, at = bytearray(content), 8
    while at + 12 <= len(made):
        (size,) = struct.unpack_from(">I", made, at)
        end = at + 8 + size
        if end + 4 > len(made):
            break
        struct.pack_into(">I", made, end, zlib.crc32(made[at + 4 : end]))
        at = end + 4
    return bytes(made)


# Processes


async def test_two_images_are_decoded_at_once_and_no_more(monkeypatch: pytest.MonkeyPatch):
    running, most = [0], [0]
    both, go = threading.Barrier(3, timeout=10), threading.Event()
    lock = threading.Lock()

    def counting(*_: object) -> dict[str, Any]:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        if not go.is_set():
            both.wait()
            assert go.wait(10)
        with lock:
            running[0] -= 1
        return {"uri": ""}

    monkeypatch.setattr(PillowImages, "_decode", counting)
    own = PillowImages(max_pixels=MILLION)
    tasks = [asyncio.create_task(own.normalise(b"", media_type="image/png")) for _ in range(6)]
    await asyncio.to_thread(both.wait)
    for task in tasks[:2]:
        task.cancel()
    await asyncio.gather(*tasks[:2], return_exceptions=True)
    await asyncio.sleep(0.05)  # time for a third, if there could be one
    assert running[0] == 2
    go.set()
    await asyncio.gather(*tasks[2:])
    assert most[0] == 2


async def test_aclose_ends_a_process_that_is_decoding():
    own = PillowImages(max_pixels=32 * MILLION)
    decoding = asyncio.create_task(own.normalise(saved(Image.effect_noise((5600, 5600), 90), "PNG"), media_type="image/png"))
    busy: set[Child] = own._busy  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
    while not busy:  # noqa: ASYNC110 - until the thread has started the process
        await asyncio.sleep(0.001)
    (child,) = busy
    await own.aclose()
    with pytest.raises(MediaMalformed, match="crashed"):
        await decoding
    assert child.returncode is not None


def test_one_adapter_serves_several_event_loops():
    own, content = PillowImages(max_pixels=MILLION), saved(Image.new("L", (8, 8)), "PNG")

    async def several() -> list[str]:
        return await asyncio.gather(*(own.normalise(content, media_type="image/png") for _ in range(5)))

    assert len({made for _ in range(2) for made in asyncio.run(several())}) == 1
    asyncio.run(own.aclose())


def test_pillow_is_not_loaded_into_this_process():
    code = "import sys, interlock_agents.sam.media.images; sys.exit('PIL' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
