from __future__ import annotations

import contextlib
import io
import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from interlock.errors import MediaBomb, MediaMalformed, MediaUnsupported
from interlock_agents.sam.media import containers
from interlock_agents.sam.media.containers import MAX_METADATA, MAX_SCANS, unwrap

CANARY = b"hunter2-is-the-canary"
TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


def drawn(kind: str, size: tuple[int, int] = (5, 3), mode: str = "RGB", **options: Any) -> bytes:
    made = io.BytesIO()
    Image.effect_noise(size, 90).convert(mode).save(made, kind, **options)
    return made.getvalue()


def frame_of(gif: bytes | bytearray) -> int:
    """Find where a GIF's first frame begins: behind its palette, which may have any byte in it."""
    return gif.index(b",", 13 + (3 << (gif[10] & 7) + 1))


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_with(*extra: bytes) -> bytes:
    """Put chunks behind the header of a PNG."""
    whole = drawn("PNG")
    return whole[:33] + b"".join(extra) + whole[33:]


def segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content


def jpeg_with(*extra: bytes) -> bytes:
    whole = drawn("JPEG")
    return whole[:2] + b"".join(extra) + whole[2:]


def exif(orientation: int, order: str = ">") -> bytes:
    magic = b"MM\0*" if order == ">" else b"II*\0"
    entries = struct.pack(f"{order}HHIHxx", 0x0112, 3, 1, orientation) + struct.pack(f"{order}HHII", 0x010E, 2, len(CANARY), 38)
    return b"Exif\0\0" + magic + struct.pack(f"{order}IH", 8, 2) + entries + struct.pack(f"{order}I", 0) + CANARY


def pixels(content: bytes) -> bytes:
    with Image.open(io.BytesIO(content)) as opened:
        return opened.convert("RGBA").tobytes()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", ["RGB", "L", "1"])
def test_what_is_left_of_a_file_draws_the_same_picture(kind: str, mode: str):
    whole = drawn(kind, mode=mode)
    picture = unwrap(whole, media_type=TYPES[kind])
    assert (picture.width, picture.height, picture.orientation) == (5, 3, 1)
    assert pixels(picture.content) == pixels(whole)


@pytest.mark.parametrize("kind", ["PNG", "GIF", "WEBP"])
@pytest.mark.parametrize("mode", ["P", "RGBA", "LA"])
def test_palettes_and_transparency_are_left(kind: str, mode: str):
    whole = drawn(kind, mode=mode)
    assert pixels(unwrap(whole, media_type=TYPES[kind]).content) == pixels(whole)


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_the_transparent_colour_is_left(kind: str):
    whole = drawn(kind, mode="P", transparency=7)
    assert pixels(unwrap(whole, media_type=TYPES[kind]).content) == pixels(whole)


@pytest.mark.parametrize(
    "options", [{"progressive": True}, {"restart_marker_blocks": 1}, {"quality": 100, "subsampling": 0}, {"optimize": True}]
)
def test_every_kind_of_jpeg_is_left_as_it_is_drawn(options: dict[str, Any]):
    whole = drawn("JPEG", (200, 120), **options)
    assert pixels(unwrap(whole, media_type="image/jpeg").content) == pixels(whole)


@pytest.mark.parametrize("options", [{"lossless": True}, {"quality": 10}, {"exif": exif(1)}, {"icc_profile": CANARY}])
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_every_kind_of_webp_is_left_as_it_is_drawn(options: dict[str, Any], mode: str):
    whole = drawn("WEBP", (31, 17), mode=mode, **options)
    assert pixels(unwrap(whole, media_type="image/webp").content) == pixels(whole)


def test_a_cmyk_jpeg_keeps_what_says_how_its_colours_are_written():
    whole = drawn("JPEG", (20, 20), mode="CMYK")
    assert b"Adobe" in unwrap(whole, media_type="image/jpeg").content
    assert pixels(unwrap(whole, media_type="image/jpeg").content) == pixels(whole)


METADATA: dict[str, Callable[[], tuple[str, bytes]]] = {
    "PNG text": lambda: ("PNG", png_with(chunk(b"tEXt", b"Comment\0" + CANARY))),
    "PNG compressed text": lambda: ("PNG", png_with(chunk(b"zTXt", b"Comment\0\0" + zlib.compress(CANARY, 0)))),
    "PNG international text": lambda: ("PNG", png_with(chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + CANARY))),
    "PNG EXIF": lambda: ("PNG", png_with(chunk(b"eXIf", exif(6)[6:]))),
    "PNG profile": lambda: ("PNG", png_with(chunk(b"iCCP", b"icc\0\0" + zlib.compress(CANARY, 0)))),
    "PNG chunk of somebody": lambda: ("PNG", png_with(chunk(b"prIv", CANARY))),
    "PNG after its end": lambda: ("PNG", drawn("PNG") + CANARY),
    "JPEG EXIF": lambda: ("JPEG", jpeg_with(segment(0xE1, exif(6)))),
    "JPEG XMP": lambda: ("JPEG", jpeg_with(segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + CANARY))),
    "JPEG profile": lambda: ("JPEG", jpeg_with(segment(0xE2, b"ICC_PROFILE\0\x01\x01" + CANARY))),
    "JPEG comment": lambda: ("JPEG", jpeg_with(segment(0xFE, CANARY))),
    "JPEG Photoshop": lambda: ("JPEG", jpeg_with(segment(0xED, b"Photoshop 3.0\0" + CANARY))),
    "JPEG after its end": lambda: ("JPEG", drawn("JPEG") + CANARY),
    "GIF comment": lambda: ("GIF", drawn("GIF", comment=CANARY)),
    "WebP EXIF": lambda: ("WEBP", drawn("WEBP", exif=exif(6))),
    "WebP XMP": lambda: ("WEBP", drawn("WEBP", xmp=CANARY)),
    "WebP profile": lambda: ("WEBP", drawn("WEBP", icc_profile=CANARY)),
    "WebP after its end": lambda: ("WEBP", drawn("WEBP") + CANARY),
}


@pytest.mark.parametrize("make", METADATA.values(), ids=METADATA.keys())
def test_a_decoder_never_sees_metadata(make: Callable[[], tuple[str, bytes]]):
    kind, whole = make()
    assert CANARY in whole
    picture = unwrap(whole, media_type=TYPES[kind])
    assert CANARY not in picture.content
    assert pixels(picture.content) == pixels(whole)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("order", ["<", ">"])
def test_the_orientation_is_read_in_every_container_and_byte_order(orientation: int, order: str):
    block = exif(orientation, order)
    files = {
        "image/png": png_with(chunk(b"eXIf", block[6:])),
        "image/jpeg": jpeg_with(segment(0xE1, block)),
        "image/webp": drawn("WEBP", exif=block),
    }
    assert {unwrap(content, media_type=kind).orientation for kind, content in files.items()} == {orientation}


@pytest.mark.parametrize(
    "block", [b"", b"MM", b"MM\0*", b"MM\0*\xff\xff\xff\xff", b"II*\0\x08\0\0\0\xff\xff", exif(0), exif(9), exif(65535)]
)
def test_a_picture_with_damaged_exif_is_upright(block: bytes):
    assert unwrap(jpeg_with(segment(0xE1, b"Exif\0\0" + block.removeprefix(b"Exif\0\0"))), media_type="image/jpeg").orientation == 1


def test_exif_in_which_every_entry_points_to_all_of_it_takes_no_memory():
    entries = b"".join(struct.pack("<HHII", 0x1000 + tag, 7, 60_000, 8) for tag in range(5_000))
    whole = jpeg_with(segment(0xE1, b"Exif\0\0II*\0" + struct.pack("<IH", 8, 5_000) + entries))
    tracemalloc.start()
    unwrap(whole, media_type="image/jpeg")
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def bomb(kind: bytes, head: bytes, size: int) -> bytes:
    return chunk(kind, head + zlib.compress(bytes(size), 9))


BOMBS = {
    "text": (bomb(b"zTXt", b"Comment\0\0", MAX_METADATA + 1),),
    "international text": (bomb(b"iTXt", b"Comment\0\x01\0\0\0", MAX_METADATA + 1),),
    "a profile": (bomb(b"iCCP", b"icc\0\0", MAX_METADATA + 1),),
    "many small ones": (bomb(b"zTXt", b"Comment\0\0", MAX_METADATA // 4),) * 5,
}


@pytest.mark.parametrize("chunks", BOMBS.values(), ids=BOMBS.keys())
def test_metadata_that_inflates_to_more_than_it_may_is_a_bomb(chunks: tuple[bytes, ...]):
    with pytest.raises(MediaBomb):
        unwrap(png_with(*chunks), media_type="image/png")


def test_a_bomb_in_metadata_is_found_without_being_inflated():
    whole = png_with(bomb(b"zTXt", b"Comment\0\0", 100_000_000))
    tracemalloc.start()
    with pytest.raises(MediaBomb):
        unwrap(whole, media_type="image/png")
    assert tracemalloc.get_traced_memory()[1] < 3 * MAX_METADATA
    tracemalloc.stop()


def test_metadata_that_is_no_zlib_is_dropped_like_the_rest():
    unwrap(png_with(chunk(b"zTXt", b"Comment\0\0no zlib")), media_type="image/png")


@pytest.mark.parametrize("scans", [MAX_SCANS, MAX_SCANS + 1])
def test_a_jpeg_may_not_pass_over_its_pixels_again_and_again(scans: int):
    whole = drawn("JPEG", progressive=True)
    more = scans - whole.count(b"\xff\xda")
    whole = whole[:-2] + segment(0xDA, b"\x01\x01\x00\x00\x3f\x00") * more + whole[-2:]
    if scans > MAX_SCANS:
        with pytest.raises(MediaBomb):
            unwrap(whole, media_type="image/jpeg")
    else:
        unwrap(whole, media_type="image/jpeg")


def test_a_jpeg_that_comes_line_by_line_is_not_held_in_full():
    one_scan = drawn("JPEG", (64, 64))
    assert unwrap(one_scan, media_type="image/jpeg").held == 0
    at = one_scan.index(b"\xff\xda")
    apart = one_scan[:at] + segment(0xDA, b"\x01\x01\x00\x00\x3f\x00") + one_scan[at:]  # one colour before the others
    assert unwrap(apart, media_type="image/jpeg").held == 3


@pytest.mark.parametrize(("mode", "subsampling", "held"), [("L", 0, 2), ("RGB", 0, 6), ("RGB", 1, 4), ("RGB", 2, 3), ("CMYK", 0, 8)])
def test_a_progressive_jpeg_is_held_until_its_last_scan(mode: str, subsampling: int, held: int):
    whole = drawn("JPEG", (64, 64), mode=mode, progressive=True, subsampling=subsampling)
    assert unwrap(whole, media_type="image/jpeg").held == held


def test_a_jpeg_with_a_colour_without_samples_is_malformed():
    whole = bytearray(drawn("JPEG", mode="L", progressive=True))
    whole[whole.index(b"\xff\xc2") + 11] = 0
    with pytest.raises(MediaMalformed):
        unwrap(bytes(whole), media_type="image/jpeg")


PARTS = {
    "image/png": lambda: png_with(chunk(b"prIv", b"") * 11),
    "image/jpeg": lambda: jpeg_with(segment(0xE5, b"") * 11),
    "image/webp": lambda: webp_with(b"prIv\0\0\0\0" * 11),
}


def webp_with(extra: bytes) -> bytes:
    body = drawn("WEBP")[8:] + extra
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize("media_type", PARTS)
def test_a_file_in_too_many_parts_is_a_bomb(media_type: str, monkeypatch: pytest.MonkeyPatch):
    unwrap(PARTS[media_type](), media_type=media_type)
    monkeypatch.setattr(containers, "MAX_PARTS", 10)
    with pytest.raises(MediaBomb):
        unwrap(PARTS[media_type](), media_type=media_type)


def test_a_run_of_markers_that_never_come_takes_no_time():
    before = time.perf_counter()
    with pytest.raises(MediaMalformed):
        unwrap(b"\xff\xd8\xff" + b"\xff" * 200_000, media_type="image/jpeg")
    assert time.perf_counter() - before < 10  # the square of that many takes a minute


def animated(kind: str, **options: Any) -> bytes:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "lime", "blue")]
    made = io.BytesIO()
    frames[0].save(made, kind, save_all=True, append_images=frames[1:], **options)
    return made.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "GIF", "WEBP"])
def test_of_an_animation_the_first_frame_is_left(kind: str):
    whole = animated(kind, duration=100, lossless=True) if kind == "WEBP" else animated(kind, duration=100)
    picture = unwrap(whole, media_type=TYPES[kind])
    with Image.open(io.BytesIO(picture.content)) as opened:
        assert opened.convert("RGB").getpixel((8, 8)) == (255, 0, 0)
    if kind != "GIF":
        assert len(picture.content) < len(whole)


def test_what_a_gif_would_leave_behind_is_never_made():
    """Pillow fills it as it opens the file: 100 MB here, from 800 bytes."""
    whole = bytearray(animated("GIF", disposal=2, duration=10))
    control = whole.index(b"!\xf9\x04")
    assert whole[control + 3] & 0b11100
    left = unwrap(bytes(whole), media_type="image/gif").content
    assert left[left.index(b"!\xf9\x04") + 3] & 0b11100 == 0


def test_a_gif_is_as_large_as_its_screen_and_its_first_frame_together():
    whole = bytearray(drawn("GIF"))
    frame = frame_of(whole)
    struct.pack_into("<HH", whole, frame + 1, 60_000, 50_000)
    picture = unwrap(bytes(whole), media_type="image/gif")
    assert (picture.width, picture.height) == (60_005, 50_003)


NO_PICTURES = {
    "image/png": [b"", b"\x89PNG", b"\x89PNG\r\n\x1a\n", b"not a picture", png_with()[:-1], png_with()[:40]],
    "image/jpeg": [b"", b"\xff\xd8\xff", b"\xff\xd8\xff\xd9", b"not a picture", jpeg_with()[:-2], jpeg_with()[:200]],
    "image/gif": [b"", b"GIF89a", b"GIF89a\x01\0\x01\0\0\0\0;", b"not a picture", drawn("GIF")[:20]],
    "image/webp": [
        b"",
        b"RIFF\0\0\0\0WEBP",
        b"RIFF\x04\0\0\0WEBP",
        b"not a picture",
        drawn("WEBP")[:-1],
        drawn("WEBP")[:30],
        webp_with(b"EXIF\xff\0\0\0"),
    ],
}


@pytest.mark.parametrize(("media_type", "content"), [(kind, content) for kind, cases in NO_PICTURES.items() for content in cases])
def test_a_file_that_is_cut_off_or_something_else_is_malformed(media_type: str, content: bytes):
    with pytest.raises(MediaMalformed) as caught:
        unwrap(content, media_type=media_type)
    assert caught.value.code == "media_malformed"


@pytest.mark.parametrize("kind", TYPES)
def test_a_picture_without_pixels_is_malformed(kind: str):
    whole = bytearray(drawn(kind))
    match kind:
        case "PNG":
            header = struct.pack(">II", 0, 5) + bytes(whole[24:29])
            whole[8:33] = chunk(b"IHDR", header)
        case "JPEG":
            struct.pack_into(">H", whole, whole.index(b"\xff\xc0") + 5, 0)
        case "GIF":
            struct.pack_into("<H", whole, frame_of(whole) + 5, 0)
        case _:
            struct.pack_into("<H", whole, 26, 0)
    with pytest.raises(MediaMalformed):
        unwrap(bytes(whole), media_type=TYPES[kind])


def test_a_png_with_a_wrong_checksum_is_malformed():
    whole = bytearray(drawn("PNG"))
    whole[45] ^= 1
    with pytest.raises(MediaMalformed, match="checksum"):
        unwrap(bytes(whole), media_type="image/png")


def test_a_png_whose_header_is_not_first_is_malformed():
    whole = drawn("PNG")
    with pytest.raises(MediaMalformed):
        unwrap(whole[:8] + whole[33:], media_type="image/png")


def test_a_jpeg_with_two_frames_is_malformed():
    whole = drawn("JPEG")
    at = whole.index(b"\xff\xc0")
    frame = whole[at : at + 19]
    with pytest.raises(MediaMalformed):
        unwrap(whole[:at] + frame + whole[at:], media_type="image/jpeg")


@pytest.mark.parametrize("media_type", ["image/tiff", "image/svg+xml", "image/bmp", "application/pdf", ""])
def test_every_other_type_is_unsupported(media_type: str):
    with pytest.raises(MediaUnsupported):
        unwrap(drawn("PNG"), media_type=media_type)


SEEDS = {TYPES[kind]: drawn(kind) for kind in TYPES}


@given(media_type=st.sampled_from(sorted(SEEDS)), data=st.data())
def test_flipped_bytes_are_a_picture_or_a_typed_error(media_type: str, data: st.DataObject):
    content = bytearray(SEEDS[media_type])
    for at, value in data.draw(st.dictionaries(st.integers(0, len(content) - 1), st.integers(0, 255), max_size=8)).items():
        content[at] = value
    cut = data.draw(st.integers(0, len(content)))
    with contextlib.suppress(MediaMalformed):
        assert unwrap(bytes(content[:cut]), media_type=media_type).pixels > 0


@given(media_type=st.sampled_from(sorted(SEEDS)), tail=st.binary())
def test_any_bytes_behind_a_signature_are_a_picture_or_a_typed_error(media_type: str, tail: bytes):
    with contextlib.suppress(MediaMalformed):
        assert unwrap(SEEDS[media_type][:13] + tail, media_type=media_type).pixels > 0
