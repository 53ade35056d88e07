from __future__ import annotations

import asyncio
import base64
import contextlib
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
from interlock_agents.sam.media import images
from interlock_agents.sam.media.containers import Picture
from interlock_agents.sam.media.images import PillowImages

CANARY = "hunter2-is-the-canary"
TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
MILLION = 1_000_000


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    made = io.BytesIO()
    image.save(made, kind, **options)
    return made.getvalue()


async def made_of(content: bytes, media_type: str, *, max_pixels: int = 32 * MILLION) -> Image.Image:
    """Normalise an image and open what came out, after checking what every result must be."""
    uri = await PillowImages(max_pixels=max_pixels).normalise(content, media_type=media_type)
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
async def test_an_image_comes_out_as_it_looks(kind: str):
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
async def test_the_longer_side_is_at_most_1024_and_nothing_is_made_larger(given: tuple[int, int], size: tuple[int, int], kind: str):
    assert (await made_of(saved(Image.new("RGB", given, "red"), kind), TYPES[kind])).size == size


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
async def test_every_kind_of_colour_is_scaled_as_it_looks(mode: str):
    """In bands, so the seams between them are looked at too."""
    image = Image.linear_gradient("L").resize((3000, 2500))
    image = image.point(lambda value: value * 257, "I").convert("I;16") if mode == "I;16" else image.convert(mode)
    made = (await made_of(saved(image, "PNG"), "image/png")).convert("L")
    assert made.size == (1024, 853)
    column = [made.resize((1, 853), Image.Resampling.BOX).getpixel((0, y)) for y in range(853)]
    assert all(isinstance(value, int) and abs(value - y * 255 / 852) < 12 for y, value in enumerate(column))


@pytest.mark.parametrize(("mode", "options"), [("RGBA", {}), ("LA", {}), ("P", {"transparency": 0}), ("L", {"transparency": 0})])
async def test_what_one_can_see_through_stays_so(mode: str, options: dict[str, Any]):
    image = Image.new("RGBA", (2100, 100), (0, 0, 0, 0)).convert(mode) if not options else Image.new(mode, (2100, 100), 0)
    image.paste(Image.new("RGBA", (1050, 100), (255, 255, 255, 255)).convert(mode) if not options else 200, (0, 0, 1050, 100))
    made = await made_of(saved(image, "PNG", **options), "image/png")
    assert (made.format, made.mode) == ("PNG", "RGBA")
    assert [made.getpixel((x, 20))[3] for x in (10, 1000)] == [255, 0]  # pyright: ignore[reportIndexIssue, reportOptionalSubscript]


async def test_transparency_that_nobody_sees_is_not_kept():
    assert (await made_of(saved(Image.new("RGBA", (9, 9), "red"), "PNG"), "image/png")).format == "JPEG"


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
async def test_a_picture_is_turned_the_way_up_that_its_exif_says(orientation: int, kind: str):
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
async def test_metadata_is_gone(kind: str):
    content = photograph(kind)
    assert CANARY.encode() in content
    await made_of(content, TYPES[kind])  # looks for the canary


async def test_metadata_is_gone_from_an_image_that_stays_a_png():
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", CANARY)
    content = saved(Image.new("RGBA", (9, 9), (1, 2, 3, 4)), "PNG", pnginfo=text, icc_profile=CANARY.encode() * 9)
    assert (await made_of(content, "image/png")).format == "PNG"


@pytest.mark.parametrize("kind", ["PNG", "GIF", "WEBP"])
async def test_of_an_animation_the_first_frame_is_taken(kind: str):
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "lime", "blue")]
    made = await made_of(saved(frames[0], kind, save_all=True, append_images=frames[1:], duration=100), TYPES[kind])
    assert near(made.getpixel((8, 8)), (255, 0, 0))


# Bombs


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

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


MEASURED = """
import asyncio, pathlib, re, sys
from PIL import GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin
from interlock_agents.sam.media.images import PillowImages
from interlock.errors import MediaBomb

def peak():
    # Not getrusage(): its peak is that of the process that started this one, where that was higher.
    return int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])

content, media_type = sys.stdin.buffer.read(), sys.argv[1]
before = peak()
try:
    asyncio.run(PillowImages(max_pixels=int(sys.argv[2])).normalise(content, media_type=media_type))
except MediaBomb:
    print("media_bomb", end=" ")
print(peak() - before)
"""
measures = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says how much memory a process took at most")


def memory_for(content: bytes, media_type: str, max_pixels: int) -> tuple[str, int]:
    """Normalise an image in a process of its own; return what came of it and by how many megabytes the process grew."""
    command = [sys.executable, "-W", "error", "-c", MEASURED, media_type, str(max_pixels)]
    *words, grown = subprocess.run(command, input=content, capture_output=True, check=True).stdout.decode().split()
    return " ".join(words), int(grown) // 1024


@measures
@pytest.mark.parametrize(("media_type", "make"), BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_refused_without_memory(media_type: str, make: Callable[[], bytes]):
    code, grown = memory_for(make(), media_type, 32 * MILLION)
    assert code == "media_bomb"
    assert grown < 10


@measures
def test_a_photograph_of_50_megapixels_is_fine_and_never_exists_in_full():
    photo = saved(Image.linear_gradient("L").resize((8660, 5774)), "JPEG")
    code, grown = memory_for(photo, "image/jpeg", 32 * MILLION)
    assert code == ""
    assert grown < 40


@measures
def test_colours_are_converted_without_a_second_picture_of_full_size():
    palette = saved(Image.linear_gradient("L").resize((5600, 5600)).convert("P"), "PNG", transparency=3)
    code, grown = memory_for(palette, "image/png", 32 * MILLION)
    assert code == ""
    assert grown < 80  # 31 for the picture, and not 125 for each conversion of it


async def test_the_limit_is_the_last_size_that_is_taken():
    content = saved(Image.new("RGB", (100, 100)), "PNG")
    await made_of(content, "image/png", max_pixels=10_000)
    with pytest.raises(MediaBomb):
        await made_of(content, "image/png", max_pixels=9_999)


async def test_a_large_jpeg_counts_as_what_it_is_shrunk_to():
    content = saved(Image.new("L", (8192, 100)), "JPEG")
    await made_of(content, "image/jpeg", max_pixels=1024 * 13)
    with pytest.raises(MediaBomb):
        await made_of(content, "image/jpeg", max_pixels=1024 * 12)


@pytest.mark.parametrize(
    ("kind", "options", "limit"),
    [("WEBP", {}, 4), ("JPEG", {"progressive": True, "subsampling": 0}, 1.5), ("JPEG", {"progressive": True}, 0.75)],
)
async def test_an_image_whose_decoder_holds_more_counts_for_more(kind: str, options: dict[str, Any], limit: float):
    content = saved(Image.new("RGB", (8_000, 100)), kind, **options)
    await made_of(content, TYPES[kind], max_pixels=int(800_000 * limit))
    with pytest.raises(MediaBomb):
        await made_of(content, TYPES[kind], max_pixels=int(800_000 * limit) - 1)


@measures
@pytest.mark.parametrize(("kind", "options"), [("PNG", {}), ("GIF", {}), ("WEBP", {}), ("JPEG", {"progressive": True, "subsampling": 0})])
def test_the_largest_image_of_every_kind_takes_about_the_same_memory(kind: str, options: dict[str, Any]):
    share = {"WEBP": 4, "JPEG": 1.5}.get(kind, 1)
    side = int((32 * MILLION / share) ** 0.5)
    code, grown = memory_for(
        saved(Image.linear_gradient("L").resize((side, side)).convert("RGB"), kind, **options), TYPES[kind], 32 * MILLION
    )
    assert code == ""
    assert grown < 160


async def test_running_out_of_memory_is_a_bomb(monkeypatch: pytest.MonkeyPatch):
    def explode(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(images, "_small", explode)
    with pytest.raises(MediaBomb):
        await made_of(saved(Image.new("L", (8, 8)), "PNG"), "image/png")


# Bad input


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("other", TYPES)
async def test_a_type_other_than_the_declared_one_is_malformed(kind: str, other: str):
    content = saved(Image.new("RGB", (8, 8)), kind)
    if kind == other:
        await made_of(content, TYPES[other])
    else:
        with pytest.raises(MediaMalformed):
            await made_of(content, TYPES[other])


@pytest.mark.parametrize("media_type", ["image/tiff", "image/bmp", "image/svg+xml", "image/avif", "image/x-icon"])
async def test_a_type_that_is_not_taken_is_unsupported(media_type: str):
    with pytest.raises(MediaUnsupported):
        await made_of(b"II*\0", media_type)


async def test_a_file_that_declares_one_size_and_has_another_is_malformed(monkeypatch: pytest.MonkeyPatch):
    content = saved(Image.new("RGB", (8, 8)), "PNG")

    def mistaken(content: bytes, *, media_type: str) -> Picture:
        return Picture(content=content, width=4, height=4)

    monkeypatch.setattr(images, "unwrap", mistaken)
    with pytest.raises(MediaMalformed, match="two sizes"):
        await made_of(content, "image/png")


@pytest.mark.parametrize("error", [OSError(CANARY), SyntaxError(CANARY), ValueError(CANARY), Warning(CANARY), RecursionError(CANARY)])
async def test_what_pillow_says_of_the_input_goes_nowhere(monkeypatch: pytest.MonkeyPatch, error: Exception):
    def explode(*_: object) -> None:
        raise error

    monkeypatch.setattr(images, "_small", explode)
    with pytest.raises(MediaMalformed) as caught:
        await made_of(saved(Image.new("L", (8, 8)), "PNG"), "image/png")
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None


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


# Threads


async def test_the_event_loop_goes_on_while_an_image_is_decoded(monkeypatch: pytest.MonkeyPatch):
    loop_went_on = threading.Event()
    small = images._small  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001

    def waiting(*args: Any) -> Any:
        assert loop_went_on.wait(10)
        return small(*args)

    monkeypatch.setattr(images, "_small", waiting)
    task = asyncio.create_task(made_of(saved(Image.new("L", (8, 8)), "PNG"), "image/png"))
    await asyncio.sleep(0)
    loop_went_on.set()
    await task


async def test_two_images_are_decoded_at_once_and_no_more_also_where_nobody_waits_for_them(monkeypatch: pytest.MonkeyPatch):
    running, most = [0], [0]
    both, go = threading.Barrier(3, timeout=10), threading.Event()
    lock = threading.Lock()

    def counting(*_: object) -> Image.Image:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        if not go.is_set():
            both.wait()
            assert go.wait(10)
        with lock:
            running[0] -= 1
        return Image.new("RGB", (1, 1))

    monkeypatch.setattr(images, "_small", counting)
    content = saved(Image.new("L", (8, 8)), "PNG")
    tasks = [asyncio.create_task(made_of(content, "image/png")) for _ in range(6)]
    await asyncio.to_thread(both.wait)
    for task in tasks[:2]:
        task.cancel()
    await asyncio.gather(*tasks[:2], return_exceptions=True)
    await asyncio.sleep(0.05)  # time for a third, if there could be one
    assert running[0] == 2
    go.set()
    await asyncio.gather(*tasks[2:])
    assert most[0] == 2


def test_one_adapter_serves_several_event_loops():
    adapter, content = PillowImages(max_pixels=MILLION), saved(Image.new("L", (8, 8)), "PNG")

    async def several() -> list[str]:
        return await asyncio.gather(*(adapter.normalise(content, media_type="image/png") for _ in range(5)))

    assert len({made for _ in range(2) for made in asyncio.run(several())}) == 1


def test_pillow_is_loaded_with_the_first_image_and_not_before():
    code = "import sys, interlock_agents.sam.media.images; sys.exit('PIL' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
