"""Transcribers: a server with OpenAI's API, or pocketsphinx on this machine."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

from interlock.errors import CapabilityError, CapabilityTimeout, MediaBomb, MediaMalformed, MediaUnsupported, ModelOutputInvalid
from interlock.extras import require
from interlock.media import Wav
from interlock.models.http_limits import bounded_client
from interlock_agents.sam.media.pcm import mono

if TYPE_CHECKING:
    import openai

__all__ = ["MAX_ANSWER", "MAX_SECONDS", "OpenAITranscriber", "PocketsphinxTranscriber"]

MAX_ANSWER = 1024 * 1024
"""How many bytes a transcription server may answer with."""

MAX_SECONDS = 600
"""The longest audio in seconds that pocketsphinx transcribes."""

_ENDINGS = {"audio/wav": "wav", "audio/mpeg": "mp3", "audio/ogg": "ogg", "audio/flac": "flac"}
_MALFORMED = frozenset({400, 415, 422})
_KEY = frozenset({401, 403})


class OpenAITranscriber:
    """Calls `/audio/transcriptions` of any server with OpenAI's API."""

    def __init__(self, model: str, *, base_url: str | None = None, api_key: str | None = None, timeout_s: float = 60.0) -> None:
        self._model = model
        self._base_url = base_url or "https://api.openai.com/v1"
        self._api_key = api_key or "none"  # servers on this machine want none, the client wants one
        self._timeout_s = timeout_s
        self._client: openai.AsyncOpenAI | None = None

    async def transcribe(self, audio: bytes, *, media_type: str) -> str:
        """Return the words that are spoken. Audio in which the server finds none is malformed."""
        ending = _ENDINGS.get(media_type)
        if ending is None:
            raise MediaUnsupported(f"Audio of type '{media_type}' is not taken. Send one of {', '.join(_ENDINGS)}.")
        text = _text(await self._ask((f"audio.{ending}", audio, media_type)))
        if not text.strip():
            raise MediaMalformed("The transcriber found no words in the audio.")
        return text

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _ask(self, file: tuple[str, bytes, str]) -> bytes:
        import openai  # noqa: PLC0415 - takes most of a second

        try:
            async with asyncio.timeout(self._timeout_s):
                # The SDK hands a body that is no JSON out as a transcript, so it is read here.
                answer = await self._connected().audio.transcriptions.with_raw_response.create(
                    file=file, model=self._model, response_format="json"
                )
                return answer.http_response.content
        except (TimeoutError, openai.APITimeoutError) as error:
            raise CapabilityTimeout(f"Transcriber '{self._model}' did not answer within {self._timeout_s:g} s.") from error
        except openai.APIStatusError as error:
            raise self._refused(error.status_code) from error
        except Exception as error:
            if any(isinstance(raised, ModelOutputInvalid) for raised in (error, error.__cause__)):  # the SDK may wrap it
                raise MediaUnsupported(f"The transcriber answered compressed, or with more than {MAX_ANSWER:,} bytes.") from None
            raise MediaUnsupported(
                f"Transcriber '{self._model}' cannot be asked ({type(error).__name__}). Check 'transcriber_base_url'."
            ) from error

    def _connected(self) -> openai.AsyncOpenAI:
        import openai  # noqa: PLC0415

        if self._client is None:
            http = bounded_client(self._base_url, max_body_bytes=MAX_ANSWER, timeout_s=self._timeout_s)
            # A client of httpx is taken by the SDK beside one of its own successor to httpx, which its types name.
            self._client = openai.AsyncOpenAI(
                base_url=self._base_url, api_key=self._api_key, max_retries=0, timeout=self._timeout_s, http_client=cast("Any", http)
            )
        return self._client

    def _refused(self, status: int) -> CapabilityError:
        if status in _MALFORMED:
            return MediaMalformed(f"The transcriber cannot use the audio (HTTP {status}).")
        fix = "Check 'transcriber_api_key'." if status in _KEY else "Check 'transcriber' and 'transcriber_base_url', or try again later."
        return MediaUnsupported(f"Transcriber '{self._model}' answered with HTTP {status}. {fix}")


def _text(answer: bytes) -> str:
    try:
        text: Any = json.loads(answer)["text"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise MediaUnsupported("The transcriber answered with something else than a transcript.") from error
    if not isinstance(text, str):
        raise MediaUnsupported("The transcriber answered with something else than a transcript.")
    return text


_RATE = 16_000
_BLOCK = 8 * _RATE * 2  # bytes: pocketsphinx holds the interpreter's lock while it looks back over an utterance
_CHUNK = _RATE * 2 // 5
_PAUSE = bytes(_RATE * 2)  # so that the last word is not cut off

_EXECUTOR = ThreadPoolExecutor(max_workers=1, thread_name_prefix="interlock-speech")


class PocketsphinxTranscriber:
    """Transcribes English WAV files without a network. Good enough for a few clear words, not for free speech."""

    def __init__(self) -> None:
        require("pocketsphinx", extra="speech", what="Transcriber 'pocketsphinx'")
        self._decoder: Any = None

    async def transcribe(self, audio: bytes, *, media_type: str) -> str:
        """Return the words that are spoken. Audio without any, such as silence or music, is malformed."""
        if media_type != "audio/wav":
            raise MediaUnsupported(f"pocketsphinx takes WAV, not '{media_type}'.")
        cancelled = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(_EXECUTOR, self._transcribe, audio, cancelled)
        finally:
            cancelled.set()

    def _transcribe(self, audio: bytes, cancelled: threading.Event) -> str:
        wav = Wav.read(audio)
        if wav.seconds > MAX_SECONDS:
            raise MediaBomb(f"The audio lasts {wav.seconds:,.0f} s; {MAX_SECONDS} are listened to.")
        sound = mono(wav, rate=_RATE)
        try:
            said = " ".join(" ".join(self._utterances(sound, cancelled)).split())
        except ImportError as error:
            raise MediaUnsupported("pocketsphinx cannot be loaded. Run: pip install --force-reinstall 'interlock[speech]'") from error
        except (RuntimeError, ValueError) as error:
            raise MediaMalformed(f"pocketsphinx cannot listen to the audio: {type(error).__name__}.") from error
        if not said:
            raise MediaMalformed("No words were found in the audio.")
        return said

    def _utterances(self, sound: bytes, cancelled: threading.Event) -> list[str]:
        """Find speech and decode it. Stop when `cancelled` is set because the caller no longer waits."""
        import pocketsphinx  # noqa: PLC0415 - an extra

        if self._decoder is None:
            self._decoder = pocketsphinx.Decoder(samprate=_RATE, loglevel="FATAL")
        self._decoder.reinit_feat()  # else what it hears depends on what it heard before; setting its means back is not enough
        said: list[str] = []
        for speech in pocketsphinx.Segmenter(sample_rate=_RATE).segment(io.BytesIO(sound + _PAUSE)):
            pcm = cast("bytes", speech.pcm)
            said += [self._utterance(pcm[start : start + _BLOCK], cancelled) for start in range(0, len(pcm), _BLOCK)]
        return said

    def _utterance(self, sound: bytes, cancelled: threading.Event) -> str:
        self._decoder.start_utt()
        for start in range(0, len(sound), _CHUNK):
            if cancelled.is_set():
                break
            self._decoder.process_raw(sound[start : start + _CHUNK])
        self._decoder.end_utt()
        heard = self._decoder.hyp()
        return heard.hypstr if heard is not None else ""
