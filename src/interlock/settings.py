"""Everything that can be set, by `INTERLOCK_*` in the environment or in an `interlock.toml` here."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

import regex
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SecretsSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from interlock.capabilities.capability import Effect
from interlock.engine import EngineName
from interlock.errors import InterlockError, SettingsInvalid
from interlock.extras import is_installed
from interlock.installed import AGENTS, load_installed
from interlock.secrets import SecretIfLong, SecretUrl, find_secrets
from interlock.spelling import closest

__all__ = [
    "LIMITS",
    "PATTERNS",
    "SECRETS_DIR",
    "AgentSettings",
    "DispatcherName",
    "LogLevel",
    "Settings",
    "ToolArgument",
    "ToolServer",
    "check_patterns",
    "read_settings",
    "unknown_settings",
]

K = TypeVar("K", bound=BaseSettings)

LIMITS = ("max_steps", "max_turn_seconds", "max_call_seconds", "max_model_calls", "max_tokens", "max_output_bytes")
"""The budgets of a turn."""

LogLevel = Literal["off", "debug", "info", "warning", "error"]

SECRETS_DIR = "INTERLOCK_SECRETS_DIR"
"""The variable that names a folder with one file for each secret: `interlock_turn_url` has `turn_url`."""

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


class ToolArgument(BaseModel):
    """What an argument of a tool accepts beside trusted values."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    allow: tuple[str | int | float, ...] = ()
    guard: str | None = None
    approve: bool = False
    data: bool = False


class _FileSource(TomlConfigSettingsSource):
    """Reads `interlock.toml`. A class of settings gets the keys that are its fields; `Settings` also gets those that no class knows."""

    def __call__(self) -> dict[str, Any]:
        found, own = super().__call__(), self.settings_cls.model_fields
        others = [] if issubclass(self.settings_cls, AgentSettings) else unknown_settings(found)
        return {name: value for name, value in found.items() if name in own or name in others}


class _FromSources(BaseSettings):
    """Settings from four sources: the constructor wins over the environment, that over files of secrets, and those over the file."""

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
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - its folder is not configured
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        folder = os.environ.get(SECRETS_DIR)  # noqa: TID251 - where settings come from
        secrets = () if folder is None else (SecretsSettingsSource(settings_cls, secrets_dir=_secrets_folder(folder)),)
        return init_settings, env_settings, *secrets, _FileSource(settings_cls)


def _secrets_folder(folder: str) -> Path:
    """Return the folder of secrets. One that does not exist is refused: the server would start without them."""
    found = Path(folder)
    if not found.is_dir():
        raise SettingsInvalid(f"'{SECRETS_DIR}' names '{folder}', which is not a folder.")
    return found


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


def misspelt_variables() -> list[tuple[str, str]]:
    """Return the environment variables whose name is almost that of a setting, each with that name. They have no effect."""
    prefix = "INTERLOCK_"
    known = [f"{prefix}{name}".upper() for kind in (Settings, *_subclasses(AgentSettings)) for name in kind.model_fields]
    given = sorted(name for name in os.environ if name.startswith(prefix))  # noqa: TID251 - where settings come from
    unknown = unknown_settings(name.removeprefix(prefix).lower() for name in given if name != SECRETS_DIR)
    pairs = ((name, closest(name, known)) for name in (f"{prefix}{name}".upper() for name in unknown))
    return [(name, close[0]) for name, close in pairs if close]


class Settings(_FromSources):
    """How Interlock is set up. What is passed to the constructor wins over the environment, and that over the file.

    The settings of an agent are passed in the same way as those declared here; `of` returns them. `none` for a budget is no limit.
    """

    model_config = SettingsConfigDict(extra="allow")

    _of_agents: dict[type[AgentSettings], tuple[dict[str, Any], AgentSettings]] = PrivateAttr(default_factory=dict)
    _is_isolated: bool = PrivateAttr(default=False)

    model: Annotated[str, Field(description="the model: `offline`, `stub`, `local`, `scripted:FILE` or `provider:name`")] = "offline"
    model_base_url: Annotated[
        str | None, Field(description="the URL of the model's server, for any server that speaks OpenAI's protocol")
    ] = None
    model_api_key: Annotated[SecretStr | None, Field(description="the key for the model's server")] = None
    model_max_tokens: Annotated[int, Field(ge=1, description="the maximum length of one answer of the model, in tokens")] = 1024
    model_path: Annotated[Path | None, Field(description="for `local`: the weights, a GGUF file")] = None
    engine: Annotated[
        EngineName, Field(description="the engine that runs the graphs: `langgraph`, the default if it is installed, or `direct`")
    ] = Field(default_factory=lambda: "langgraph" if is_installed("langgraph") else "direct")
    max_input_bytes: Annotated[int, Field(ge=1, description="the largest input that is accepted")] = 16 * 1024 * 1024
    max_steps: Annotated[
        int | None, Field(ge=1, description="the maximum number of nodes that a turn runs, unless its graph sets a lower one")
    ] = 1000
    max_turn_seconds: Annotated[
        float | None, Field(gt=0, description="the time limit of a turn, without the time for which it waits for a person")
    ] = 300.0
    max_call_seconds: Annotated[
        float | None, Field(gt=0, description="the time limit of a capability call, and of the silence of a stream")
    ] = 60.0
    max_model_calls: Annotated[int | None, Field(ge=0, description="the maximum number of model calls of a turn")] = 50
    max_tokens: Annotated[int | None, Field(ge=0, description="the maximum number of tokens of a turn, input and output together")] = (
        200_000
    )
    max_output_bytes: Annotated[int | None, Field(ge=0, description="the maximum number of bytes that the models of a turn return")] = (
        4 * 1024 * 1024
    )
    rate_limits: Annotated[
        dict[str, Annotated[int, Field(ge=1)]],
        Field(description="the maximum number of calls of a capability in a minute, by its name: `{Model = 60}`"),
    ] = {}
    redact: Annotated[tuple[str, ...], Field(description="patterns that no event, log line, span or error may show")] = PATTERNS
    session_url: Annotated[
        SecretUrl | None, Field(description="the store of session documents: `redis://...`; an embedded Valkey server by default")
    ] = None
    session_seconds: Annotated[int, Field(ge=1, description="how long a session document is stored after its last turn")] = 24 * 60 * 60
    memory_url: Annotated[SecretUrl | None, Field(description="the store of the memory: `postgresql://...`; a SQLite file by default")] = (
        None
    )
    checkpoint_url: Annotated[
        SecretUrl | None,
        Field(description="the store of persisted fields: `memory:`, `sqlite:PATH`, `postgresql://...` or `firestore:PROJECT`"),
    ] = None
    turn_url: Annotated[
        SecretUrl | None,
        Field(description="the store of turns: `memory:`, `sqlite:PATH` or `postgresql://...`; a SQLite file by default"),
    ] = None
    one_machine: Annotated[
        bool,
        Field(description="whether all workers are on this machine, so that agents may keep data in its files beside a PostgreSQL server"),
    ] = False
    turn_days: Annotated[
        float | None,
        Field(gt=0, description="how many days a turn and its events are stored after its end; `none` means that they are never deleted"),
    ] = 30.0
    turn_unserved_seconds: Annotated[
        float | None,
        Field(gt=0, description="how long a turn waits for a worker with its contracts before it ends; `none` means without a limit"),
    ] = None
    dispatcher: Annotated[
        DispatcherName,
        Field(description="what distributes accepted turns: `embedded`, to the processes that share the turn store, or `temporal`"),
    ] = "embedded"
    temporal_url: Annotated[
        str | None, Field(description="for `temporal`: the server, as `host:port`; Temporal's own configuration by default")
    ] = None
    temporal_namespace: Annotated[
        str | None, Field(description="for `temporal`: the namespace; from Temporal's own configuration where it is not set")
    ] = None
    tool_retries: Annotated[int, Field(ge=0, description="how often a call of a tool that cannot be reached is retried")] = 2
    tool_functions: Annotated[dict[str, str], Field(description="tools of your own: names, each with its `MODULE:FUNCTION`")] = {}
    tool_servers: Annotated[dict[str, ToolServer], Field(description="MCP servers: names, each with its `command` or its `url`")] = {}
    tool_effects: Annotated[
        dict[str, Effect],
        Field(description="what these tools do outside: `asks`, `keyed` or `once`, by name; `SERVER.*` for all tools of a server"),
    ] = {}
    tool_policies: Annotated[
        dict[str, dict[str, ToolArgument]],
        Field(description="what arguments of these tools accept beside trusted values, by tool and argument"),
    ] = {}
    tool_policy: Annotated[
        Literal["labels", "closed"] | None,
        Field(description="`closed`: arguments of tools with effects need a policy or trusted values; `labels`: only those that have one"),
    ] = None
    tool_seconds: Annotated[float, Field(gt=0, description="the time limit of a tool")] = 10.0
    human: Annotated[
        Literal["wait", "nobody"],
        Field(description="what happens when a turn asks a person: `wait` for the answer, or continue without one (`nobody`)"),
    ] = "wait"
    server_hosts: Annotated[
        tuple[str, ...], Field(description="for `serve`: the names by which clients may address the server, beside those of this machine")
    ] = ()
    server_origins: Annotated[
        tuple[str, ...], Field(description="for `serve`: the sites whose pages may call the server: `https://chat.example.com`")
    ] = ()
    server_body_bytes: Annotated[int, Field(ge=1, description="for `serve`: the largest body of a request")] = 24 * 1024 * 1024
    server_queue: Annotated[int, Field(ge=1, description="for `serve`: how many turns may wait to be run; more are refused")] = 1000
    server_secret: Annotated[
        SecretStr | None, Field(description="for `serve`: signs session cookies; set it where several servers share their clients")
    ] = None
    jwt_key: Annotated[
        SecretStr | None, Field(description="for `serve`: verifies JSON web tokens: a public key in PEM format, or a shared secret")
    ] = None
    jwt_jwks: Annotated[
        str | None, Field(description="for `serve`: the public keys of tokens: a JWKS file or https URL; without it, those of the issuer")
    ] = None
    jwt_issuer: Annotated[str | None, Field(description="for `serve`: the issuer that tokens must name")] = None
    jwt_audience: Annotated[str | None, Field(description="for `serve`: the audience that tokens must name")] = None
    jwt_algorithms: Annotated[tuple[str, ...], Field(description="for `serve`: the algorithms by which tokens may be signed")] = (
        "RS256",
        "ES256",
        "EdDSA",
    )
    jwt_tenant: Annotated[str, Field(description="for `serve`: the claim that names the tenant")] = "tenant"
    jwt_roles: Annotated[str, Field(description="for `serve`: the claim with the list of roles")] = "roles"
    trace_content: Annotated[bool, Field(description="whether spans contain the inputs and outputs of models and tools, redacted")] = False
    log_level: Annotated[LogLevel, Field(description="what the command line logs: `off`, `debug`, `info`, `warning` or `error`")] = "off"
    data_dir: Annotated[Path, Field(description="the folder for all data that outlives a command")] = Path("~/.interlock")

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

    @model_validator(mode="after")
    def _check_effects(self) -> Settings:
        for setting in ("tool_effects", "tool_policies"):
            for name in getattr(self, setting):
                if name not in self.tool_functions and name.partition(".")[0] not in self.tool_servers:
                    raise PydanticCustomError(
                        "unknown_tool",
                        "'{setting}' names '{name}', which is not a tool of these settings",
                        {"setting": setting, "name": name},
                    )
        return self

    @field_validator(*LIMITS, "turn_days", "turn_unserved_seconds", mode="before")
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
