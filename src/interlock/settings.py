"""Everything that can be set, by `INTERLOCK_*` in the environment or in an `interlock.toml` here."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

import regex
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError, TomlConfigSettingsSource

from interlock.engine import EngineName
from interlock.errors import InterlockError, SettingsInvalid
from interlock.extras import is_installed
from interlock.installed import AGENTS, load_installed
from interlock.secrets import SecretIfLong, SecretUrl, find_secrets

__all__ = [
    "LIMITS",
    "PATTERNS",
    "AgentSettings",
    "DispatcherName",
    "LogLevel",
    "Settings",
    "ToolServer",
    "check_patterns",
    "read_settings",
    "unknown_settings",
]

K = TypeVar("K", bound=BaseSettings)

LIMITS = ("max_steps", "max_turn_seconds", "max_call_seconds", "max_model_calls", "max_tokens", "max_output_bytes")
"""The budgets of a turn."""

LogLevel = Literal["off", "debug", "info", "warning", "error"]

DispatcherName = Literal["embedded", "temporal"]

PATTERNS = (
    r"sk-[A-Za-z0-9_-]{16,}",
    r"AKIA[0-9A-Z]{16}",
    r"AIza[0-9A-Za-z_-]{35}",
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    r"[Bb]earer [A-Za-z0-9._~+/-]{16,}=*",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/= \n\r\t\\]*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
)
"""What keys and tokens look like."""


class ToolServer(BaseModel):
    """How to reach an MCP server. Its headers and its environment may carry keys; everything else is checked when it is opened."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    headers: dict[str, SecretIfLong] = {}
    env: dict[str, SecretIfLong] = {}

    def to_dict(self) -> dict[str, Any]:
        """Return the entries as they were given, with the keys in clear."""
        keys = {part: getattr(self, part) for part in ("headers", "env") if part in self.model_fields_set}
        clear = {part: {name: key.get_secret_value() for name, key in found.items()} for part, found in keys.items()}
        return {**(self.model_extra or {}), **clear}


class _FileSource(TomlConfigSettingsSource):
    """Reads `interlock.toml`. A class of settings gets the keys that are its fields; `Settings` also gets those that no class knows."""

    def __call__(self) -> dict[str, Any]:
        found, own = super().__call__(), self.settings_cls.model_fields
        others = [] if issubclass(self.settings_cls, AgentSettings) else unknown_settings(found)
        return {name: value for name, value in found.items() if name in own or name in others}


class _FromSources(BaseSettings):
    """Settings from three sources: the constructor wins over the environment, and that over the file."""

    model_config = SettingsConfigDict(
        env_prefix="INTERLOCK_", toml_file="interlock.toml", extra="forbid", frozen=True, env_parse_none_str="none"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - not read
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - not read
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, _FileSource(settings_cls)


class AgentSettings(_FromSources):
    """The settings of one agent: inherit from this, declare fields, and pass the class to `Agent(settings=...)`.

    A field `shop_url` is `INTERLOCK_SHOP_URL` in the environment, `shop_url` in `interlock.toml` and `Settings(shop_url=...)` in
    Python. A provider reads it by `context.settings.of(ShopSettings).shop_url`. Secrets are fields of type `SecretStr`: they are
    redacted wherever the settings are used.
    """

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        taken = [name for name in cls.model_fields if name in Settings.model_fields]
        if taken:
            raise SettingsInvalid(f"'{cls.__name__}' declares '{taken[0]}', which is a setting of Interlock. Use another name.")


S = TypeVar("S", bound=AgentSettings)


def _subclasses(kind: type[AgentSettings]) -> Iterator[type[AgentSettings]]:
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)


def unknown_settings(names: Iterable[str]) -> list[str]:
    """Return the names that are neither a setting of Interlock nor of an agent. Installed agents are loaded until each name is found."""

    def left(names: Iterable[str]) -> list[str]:
        return [name for name in names if not any(name in kind.model_fields for kind in _subclasses(AgentSettings))]

    unknown = left(name for name in names if name not in Settings.model_fields)
    for agent in AGENTS if unknown else ():
        with suppress(InterlockError):  # an agent that cannot be loaded is reported when it is used
            load_installed(agent)
        unknown = left(unknown)
        if not unknown:
            break
    return unknown


class Settings(_FromSources):
    """How Interlock is set up. What is passed to the constructor wins over the environment, and that over the file.

    The settings of an agent are passed in the same way as those declared here; `of` returns them. `none` for a budget is no limit.
    """

    model_config = SettingsConfigDict(extra="allow")

    _of_agents: dict[type[AgentSettings], tuple[dict[str, Any], AgentSettings]] = PrivateAttr(default_factory=dict)
    _is_isolated: bool = PrivateAttr(default=False)

    model: Annotated[str, Field(description="which model answers: `offline`, `stub`, `local`, `scripted:FILE` or `provider:name`")] = (
        "offline"
    )
    model_base_url: Annotated[str | None, Field(description="where the model's server is, for any OpenAI-compatible one")] = None
    model_api_key: Annotated[SecretStr | None, Field(description="the key for the model's server")] = None
    model_max_tokens: Annotated[int, Field(ge=1, description="how long one answer of the model may be, in tokens")] = 1024
    model_path: Annotated[Path | None, Field(description="for `local`: the weights, a GGUF file")] = None
    engine: Annotated[
        EngineName, Field(description="what runs the graphs: `langgraph`, the default where it is installed, or `direct`")
    ] = Field(default_factory=lambda: "langgraph" if is_installed("langgraph") else "direct")
    max_input_bytes: Annotated[int, Field(ge=1, description="the largest input that is accepted")] = 16 * 1024 * 1024
    max_steps: Annotated[int | None, Field(ge=1, description="how many nodes a turn may run, where its graph does not say less")] = 1000
    max_turn_seconds: Annotated[float | None, Field(gt=0, description="how long a turn may take")] = 300.0
    max_call_seconds: Annotated[float | None, Field(gt=0, description="how long a capability call may take, or a stream be silent")] = 60.0
    max_model_calls: Annotated[int | None, Field(ge=0, description="how many model calls a turn may make")] = 50
    max_tokens: Annotated[int | None, Field(ge=0, description="how many tokens a turn may take, in and out")] = 200_000
    max_output_bytes: Annotated[int | None, Field(ge=0, description="how much a turn's models may return")] = 4 * 1024 * 1024
    rate_limits: Annotated[
        dict[str, Annotated[int, Field(ge=1)]],
        Field(description="how many calls of a capability are made in a minute, by its name: `{Model = 60}`"),
    ] = {}
    redact: Annotated[tuple[str, ...], Field(description="patterns that no event, log line, span or error may show")] = PATTERNS
    session_url: Annotated[
        SecretUrl | None, Field(description="where session documents are kept: `redis://...`; an embedded Valkey where it is not set")
    ] = None
    session_seconds: Annotated[int, Field(ge=1, description="how long a session is kept after its last turn")] = 24 * 60 * 60
    memory_url: Annotated[
        SecretUrl | None, Field(description="where the memory is kept: `postgresql://...`; a SQLite file where it is not set")
    ] = None
    checkpoint_url: Annotated[
        SecretUrl | None,
        Field(description="where fields are kept that outlive a turn: `memory:`, `sqlite:PATH`, `postgresql://...` or `firestore:PROJECT`"),
    ] = None
    turn_url: Annotated[
        SecretUrl | None,
        Field(description="where turns are kept: `memory:`, `sqlite:PATH` or `postgresql://...`; a SQLite file where it is not set"),
    ] = None
    dispatcher: Annotated[
        DispatcherName, Field(description="who takes accepted turns: `embedded`, the processes that share the turn store, or `temporal`")
    ] = "embedded"
    temporal_url: Annotated[
        str | None, Field(description="for `temporal`: the server, as `host:port`; from Temporal's own configuration where it is not set")
    ] = None
    temporal_namespace: Annotated[
        str | None, Field(description="for `temporal`: the namespace; from Temporal's own configuration where it is not set")
    ] = None
    tool_retries: Annotated[int, Field(ge=0, description="how often a tool is tried again that cannot be reached for the moment")] = 2
    tool_functions: Annotated[dict[str, str], Field(description="tools of your own: names, each with its `MODULE:FUNCTION`")] = {}
    tool_servers: Annotated[dict[str, ToolServer], Field(description="MCP servers: names, each with its `command` or its `url`")] = {}
    tool_seconds: Annotated[float, Field(gt=0, description="how long a tool may take")] = 10.0
    human: Annotated[
        Literal["wait", "nobody"],
        Field(description="what a turn does that needs a person: `wait` for an answer, or continue as if `nobody` were there"),
    ] = "wait"
    trace_content: Annotated[bool, Field(description="whether spans have what models and tools are given and return, redacted")] = False
    log_level: Annotated[LogLevel, Field(description="what the command line logs: `off`, `debug`, `info`, `warning` or `error`")] = "off"
    data_dir: Annotated[Path, Field(description="where everything is kept that outlives a command")] = Path("~/.interlock")

    @property
    def folder(self) -> Path:
        """Where everything is kept, with the home folder filled in."""
        return self.data_dir.expanduser()

    @property
    def secrets(self) -> tuple[Any, ...]:
        """Every secret among the settings, those of agents that have been read too: what no event, log line, span or error may show."""
        return tuple(find_secrets([self, *(made for _, made in self._of_agents.values())]))

    def of(self, kind: type[S]) -> S:
        """Return the settings of an agent. They are read once. Raises SettingsInvalid for a value that cannot be used."""
        given = {name: value for name, value in (self.model_extra or {}).items() if name in kind.model_fields}
        known = self._of_agents.get(kind)
        if known is None or known[0] != given:
            made = kind.model_construct(**given) if self._is_isolated else _read(kind, given)
            known = self._of_agents[kind] = (given, made)
        return cast("S", known[1])

    @classmethod
    def isolated(cls, **given: Any) -> Settings:
        """Create settings from the defaults and of what is given. Neither the environment nor the file is read, also not for agents."""
        made = cls.model_construct(**given)
        made._is_isolated = True  # noqa: SLF001 - of our own class
        return made

    @model_validator(mode="after")
    def _check_names(self) -> Settings:
        """Refuse a name that is no setting, and read the settings of agents that are given, so that a bad value is found now."""
        given = self.model_extra or {}
        unknown = unknown_settings(given)
        if unknown:
            known = [name for kind in (Settings, *_subclasses(AgentSettings)) for name in kind.model_fields]
            close = get_close_matches(unknown[0], known, n=1)
            raise PydanticCustomError(
                "unknown_setting", "'{name}' is not a setting{fix}", {"name": unknown[0], "fix": f"; '{close[0]}' is one" if close else ""}
            )
        for kind in _subclasses(AgentSettings):
            if given.keys() & kind.model_fields.keys():
                self.of(kind)
        return self

    @field_validator(*LIMITS, mode="before")
    @classmethod
    def _read_none(cls, limit: object) -> object:
        return None if isinstance(limit, str) and limit.lower() == "none" else limit

    @field_validator("redact")
    @classmethod
    def _check_redact(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        return check_patterns(patterns)


def check_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse what is not a regular expression. For validators of settings."""
    for pattern in patterns:
        try:
            regex.compile(pattern)
        except regex.error as error:
            raise ValueError(f"'{pattern}' is not a regular expression: {error}") from error
    return patterns


def read_settings(**given: Any) -> Settings:
    """Read the settings; what is given here wins. A bad value is a SettingsInvalid that names the setting."""
    return _read(Settings, {name: value for name, value in given.items() if value is not None})


def _read(kind: type[K], given: Mapping[str, Any]) -> K:
    try:
        return kind(**given)
    except ValidationError as error:
        raise SettingsInvalid(f"Settings cannot be used: {'; '.join(map(_reason, error.errors(include_url=False)))}.") from error
    except SettingsError as error:
        raise SettingsInvalid(f'Settings cannot be used: {error}. A list is written as JSON: ["a", "b"].') from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsInvalid(f"'interlock.toml' cannot be read: {error}.") from error
    except RecursionError as error:
        raise SettingsInvalid("Settings cannot be used: a value is nested too deep.") from error


def _reason(error: ErrorDetails) -> str:
    where = ".".join(map(str, error["loc"]))
    return f"'{where}': {error['msg']}" if where else error["msg"]
