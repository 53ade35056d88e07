"""The settings of sam: who transcribes audio, and the largest image."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr

from interlock.settings import AgentSettings

__all__ = ["SamSettings"]


class SamSettings(AgentSettings):
    """Settings that only sam has."""

    transcriber: Annotated[str, Field(description="what transcribes audio: `off`, `pocketsphinx` or `openai:name`")] = "off"
    transcriber_base_url: Annotated[str | None, Field(description="the URL of the transcriber's server, if not the model's")] = None
    transcriber_api_key: Annotated[SecretStr | None, Field(description="the key for the transcriber's server, if not the model's")] = None
    max_image_pixels: Annotated[int, Field(ge=1, description="the largest image that is unpacked")] = 32_000_000
