"""Media that arrive as text or bytes: data URIs and WAV files."""

from interlock.media.data_uri import DataUri, sniff
from interlock.media.wav import Wav, check_audio

__all__ = ["DataUri", "Wav", "check_audio", "sniff"]
