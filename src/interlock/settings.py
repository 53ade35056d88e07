"""Everything that can be set, by `INTERLOCK_*` in the environment or in an `interlock.toml` here."""

from __future__ import annotations

import tomllib
from typing import Annotated, Any

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from interlock.engine import EngineName
from interlock.errors import SettingsInvalid

__all__ = ["Settings", "read_settings"]


class Settings(BaseSettings):
    """How Interlock is set up. What is passed to the constructor wins over the environment, and that over the file."""

    model_config = SettingsConfigDict(env_prefix="INTERLOCK_", toml_file="interlock.toml", extra="forbid", frozen=True)

    model: Annotated[str, Field(description="who answers: `offline` or `stub`")] = "offline"
    engine: Annotated[EngineName, Field(description="who walks the rows: `langgraph` or `direct`")] = "langgraph"
    max_input_bytes: Annotated[int, Field(ge=1, description="the largest input that is taken")] = 16 * 1024 * 1024

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - not read
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - not read
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the constructor, then the environment, then the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def read_settings(**given: Any) -> Settings:
    """Read the settings; what is given here wins. A bad value is a SettingsInvalid that names the setting."""
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        wrong = "; ".join(f"'{'.'.join(map(str, e['loc']))}': {e['msg']}" for e in error.errors(include_url=False))
        raise SettingsInvalid(f"Settings cannot be used: {wrong}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsInvalid(f"'interlock.toml' cannot be read: {error}.") from error
