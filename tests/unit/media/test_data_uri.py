"""Media in text: what a data URI declares counts, then what its bytes are, and damage is told from content."""

from __future__ import annotations

import base64

import pytest

from interlock.media import DataUri, sniff

PNG = b"\x89PNG\r\n\x1a\n"


def uri(content: bytes, declared: str = "application/octet-stream") -> DataUri:
    made = DataUri.read(f"data:{declared};base64,{base64.b64encode(content).decode()}")
    assert made is not None
    return made


@pytest.mark.parametrize("text", ["", "data:", "data: see below", "a data:image/png;base64,AA=="])
def test_plain_text_is_not_a_data_uri(text: str):
    assert DataUri.read(text) is None


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (uri(b"anything", "image/png"), "image"),
        (uri(b"anything", "AUDIO/X-WAV"), "audio"),
        (uri(PNG), "image"),
        (uri(b"RIFF\0\0\0\0WAVE"), "audio"),
        (uri(b"RIFF\0\0\0\0AVI "), "text"),
        (uri(b"hello", "text/plain"), "text"),
        (DataUri("text/plain", True, "not base64!"), "text"),
    ],
)
def test_the_kind_comes_from_the_declared_type_or_the_bytes(made: DataUri, kind: str):
    assert made.kind == kind


@pytest.mark.parametrize("payload", ["AAA", "AA=A", "not base64!", "ÄÄÄÄ"])
def test_a_damaged_payload_has_no_content(payload: str):
    assert DataUri("image/png", True, payload).content() is None


def test_a_payload_without_base64_is_percent_decoded():
    made = DataUri.read("data:text/plain,a%20b")
    assert made is not None
    assert (made.content(), made.is_known) == (b"a b", False)
    assert uri(PNG, "image/jpg").media_type == "image/jpeg"
    assert uri(PNG, "image/jpg").is_known


def test_unknown_bytes_have_no_type():
    assert (sniff(PNG), sniff(b"fLaC"), sniff(b"anything")) == ("image/png", "audio/flac", None)
