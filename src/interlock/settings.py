"""Everything that can be set, by `INTERLOCK_*` in the environment or in an `interlock.toml` here."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import regex
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from interlock.engine import EngineName
from interlock.errors import SettingsInvalid
from interlock.secrets import SecretIfLong, SecretUrl, find_secrets

__all__ = ["LIMITS", "PATTERNS", "LogLevel", "Settings", "ToolServer", "read_settings"]

LIMITS = ("max_steps", "max_turn_seconds", "max_call_seconds", "max_model_calls", "max_tokens", "max_output_bytes")
"""The budgets of a turn."""

LogLevel = Literal["off", "debug", "info", "warning", "error"]

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

# Where a request begins: at the start of a clause, behind words of politeness. "Did they ask us to delete it?" is a question and none.
_REQUEST = (
    r"(?i)(?:^|[.;:!?\n,)]|\band)\s*(?:(?:please|pls|kindly|now|then|and|ok(?:ay)?|hey|hi|hello|just|quickly|go ahead and"
    r"|(?:can|could|would|will) you|i(?:'d| would)? (?:like|want|need)(?: you)? to|you (?:must|should|have to|need to)|let'?s"
    r"|your task is to|i order you to|try to)[\s,]+){0,5}"
)
_HELD = r"(?:system prompts?|passwords?|api keys?|credentials|(?:credit )?card numbers?|secret keys?|access tokens?)"
_NOT_ABOUT = r"(?:(?!\b(?:about|on|regarding|concerning|policy|policies|rules?|handbook|many|number of|count)\b)[^.;?!]){0,60}?"
_SHOWING = r"(?:show|print|reveal|tell|repeat|give|list|display|output|dump|leak|share|send|export|get|fetch|read|find)\b"
_THINGS = r"\b(?:tables?|databases?|rows?|records?|orders?|customers?|products?|prices?|accounts?|users?|columns?|stock)\b"

POLICY = (
    _REQUEST + r"(?:ignore|disregard|forget|override|bypass)\b[^.;?!]{0,60}"
    r"\b(?:instructions?|rules?|prompts?|polic(?:y|ies)|guidelines?|restrictions?)\b",
    _REQUEST + _SHOWING + _NOT_ABOUT + rf"\b{_HELD}\b",
    rf"(?i)\bwhat(?:'s| is| are) (?:your|the|our|their|my) (?:[\w']+ ){{0,2}}?{_HELD}(?! polic)\b",
    _REQUEST + r"(?:drop|truncate|delete|wipe|destroy|erase|purge|overwrite)\b[^.;?!]{0,60}"
    r"(?:\b(?:warehouse|data|everything)\b|" + _THINGS + ")",
    _REQUEST + r"(?:remove|move)\b[^.;?!]{0,40}\b(?:from|out of)\b[^.;?!]{0,20}"
    r"\b(?:tables?|databases?|warehouse|system|products|orders|customers|order_items)\b",
    _REQUEST + r"(?:update|alter|insert|rename|modify|change|set|create|add|reset)\b[^.;?!]{0,40}" + _THINGS,
)
"""What analyst refuses to be asked, where nothing else is set: acts, and data that nobody is given. Questions about them are answered."""


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


class Settings(BaseSettings):
    """How Interlock is set up. What is passed to the constructor wins over the environment, and that over the file.

    `none` for a budget is no limit.
    """

    model_config = SettingsConfigDict(
        env_prefix="INTERLOCK_", toml_file="interlock.toml", extra="forbid", frozen=True, env_parse_none_str="none"
    )

    model: Annotated[str, Field(description="who answers: `offline`, `stub`, `local`, `scripted:FILE` or `provider:name`")] = "offline"
    model_base_url: Annotated[str | None, Field(description="where the model's server is, for any OpenAI-compatible one")] = None
    model_api_key: Annotated[SecretStr | None, Field(description="the key for the model's server")] = None
    model_max_tokens: Annotated[int, Field(ge=1, description="how long one answer of the model may be, in tokens")] = 1024
    model_path: Annotated[Path | None, Field(description="for `local`: the weights, a GGUF file")] = None
    transcriber: Annotated[str, Field(description="who hears: `off`, `pocketsphinx` or `openai:name`")] = "off"
    transcriber_base_url: Annotated[str | None, Field(description="where the transcriber's server is, if not the model's")] = None
    transcriber_api_key: Annotated[SecretStr | None, Field(description="the key for the transcriber's server, if not the model's")] = None
    engine: Annotated[EngineName, Field(description="who walks the rows: `langgraph` or `direct`")] = "langgraph"
    max_input_bytes: Annotated[int, Field(ge=1, description="the largest input that is taken")] = 16 * 1024 * 1024
    max_image_pixels: Annotated[int, Field(ge=1, description="the largest image that is unpacked")] = 32_000_000
    max_steps: Annotated[int | None, Field(ge=1, description="how many nodes a turn may run, where its graph does not say less")] = 1000
    max_turn_seconds: Annotated[float | None, Field(gt=0, description="how long a turn may take")] = 300.0
    max_call_seconds: Annotated[float | None, Field(gt=0, description="how long a capability call may take, or a stream be silent")] = 60.0
    max_model_calls: Annotated[int | None, Field(ge=0, description="how often a turn may ask a model")] = 50
    max_tokens: Annotated[int | None, Field(ge=0, description="how many tokens a turn may take, in and out")] = 200_000
    max_output_bytes: Annotated[int | None, Field(ge=0, description="how much a turn's models may say")] = 4 * 1024 * 1024
    redact: Annotated[tuple[str, ...], Field(description="patterns that no event, log line, span or error may show")] = PATTERNS
    session_url: Annotated[
        SecretUrl | None, Field(description="where desk keeps its sessions: `redis://...`; an embedded Valkey where it is not set")
    ] = None
    session_seconds: Annotated[int, Field(ge=1, description="how long a session is kept that nobody goes on with")] = 24 * 60 * 60
    memory_url: Annotated[
        SecretUrl | None, Field(description="where the memory is kept: `postgresql://...`; a SQLite file where it is not set")
    ] = None
    sales_tools: Annotated[tuple[str, ...], Field(description="the tools that desk's sales specialist may use")] = (
        "inventory.query",
        "math.evaluate",
    )
    support_tools: Annotated[tuple[str, ...], Field(description="the tools that desk's support specialist may use")] = (
        "knowledge_base.search",
        "math.evaluate",
    )
    checkpoint_url: Annotated[
        SecretUrl | None,
        Field(description="where analyst keeps its sessions: `memory:`, `sqlite:PATH`, `postgresql://...` or `firestore:PROJECT`"),
    ] = None
    analyst_tools: Annotated[tuple[str, ...], Field(description="the tools that analyst may use")] = ("bq_query", "search", "calculate")
    analyst_retries: Annotated[int, Field(ge=0, le=20, description="how often analyst plans anew when its tools find nothing")] = 2
    analyst_window: Annotated[int, Field(ge=2, description="how many messages analyst keeps word for word; older ones are summarised")] = 20
    analyst_characters: Annotated[int, Field(ge=1, description="how long a question to analyst may be")] = 32_000
    analyst_denied: Annotated[tuple[str, ...], Field(description="patterns of questions that analyst refuses")] = POLICY
    profiles_path: Annotated[Path | None, Field(description="a TOML file of users: which tools each may use, and what each prefers")] = None
    warehouse: Annotated[str, Field(description="what `bq_query` asks: `demo`, `duckdb:PATH` or `bigquery:PROJECT.DATASET`")] = "demo"
    warehouse_bytes: Annotated[int, Field(ge=1, description="how much one query may be billed for in BigQuery, in bytes")] = 10**9
    documents_path: Annotated[Path | None, Field(description="a folder with documents for `search`, in the place of the demo ones")] = None
    tool_retries: Annotated[int, Field(ge=0, description="how often a tool is tried again that cannot be reached for the moment")] = 2
    tool_functions: Annotated[dict[str, str], Field(description="tools of your own: names, each with its `MODULE:FUNCTION`")] = {}
    tool_servers: Annotated[dict[str, ToolServer], Field(description="MCP servers: names, each with its `command` or its `url`")] = {}
    tool_seconds: Annotated[float, Field(gt=0, description="how long a tool may take")] = 10.0
    catalogue_path: Annotated[Path | None, Field(description="a SQLite file with your products, in the place of the demo catalogue")] = None
    knowledge_path: Annotated[Path | None, Field(description="a folder with your articles, in the place of the demo ones")] = None
    gateway_path: Annotated[
        Path | None, Field(description="a folder with `admin` and `docs` for gateway's workers; demo files where it is not set")
    ] = None
    gateway_keywords: Annotated[
        tuple[str, ...], Field(min_length=1, description="words without which no admin's text crosses gateway's bridge")
    ] = (
        *("docs", "documentation", "documents", "customer", "customers", "users"),
        *("user document", "user documents", "knowledge base", "handbook"),
    )
    gateway_customer_writes: Annotated[bool, Field(description="whether gateway's customer side may write documents too")] = False
    gateway_file_bytes: Annotated[int, Field(ge=1, description="the largest file that gateway's workers read or write")] = 10_000_000
    gateway_secrets: Annotated[
        dict[str, str], Field(description="secrets for gateway's admin side: names, each with its `env:VARIABLE` or `file:PATH`")
    ] = {}
    gateway_secret_ref: Annotated[str | None, Field(description="the name of the secret that gateway's supervisor has for its worker")] = (
        None
    )
    human: Annotated[
        Literal["wait", "nobody"], Field(description="what a turn does that needs a person: `wait` for an answer, or go on with `nobody`")
    ] = "wait"
    graph_url: Annotated[
        SecretUrl | None,
        Field(description="where puntini's graphs are kept: `bolt://...` or `neo4j://...`; files of its own where it is not set"),
    ] = None
    graph_user: Annotated[str, Field(description="the user at the graph server")] = "neo4j"
    graph_password: Annotated[SecretStr | None, Field(description="the password at the graph server")] = None
    graph_database: Annotated[str, Field(description="the database there; `{graph}` in it stands for the session")] = "neo4j"
    graph_seconds: Annotated[float, Field(gt=0, description="how long a query of a graph may take")] = 10.0
    graph_bytes: Annotated[int, Field(ge=1, description="how much a query of a graph may return, in bytes")] = 1_000_000
    log_level: Annotated[LogLevel, Field(description="what the command line logs: `off`, `debug`, `info`, `warning` or `error`")] = "off"
    data_dir: Annotated[Path, Field(description="where everything is kept that outlives a command")] = Path("~/.interlock")

    @property
    def folder(self) -> Path:
        """Where everything is kept, with the home folder filled in."""
        return self.data_dir.expanduser()

    @property
    def secrets(self) -> tuple[Any, ...]:
        """Every secret among the settings, in clear: what no event, log line, span or error may show."""
        return tuple(find_secrets(self))

    @field_validator(*LIMITS, mode="before")
    @classmethod
    def _read_none(cls, limit: object) -> object:
        return None if isinstance(limit, str) and limit.lower() == "none" else limit

    @field_validator("redact", "analyst_denied")
    @classmethod
    def _check_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                regex.compile(pattern)
            except regex.error as error:
                raise ValueError(f"'{pattern}' is not a regular expression: {error}") from error
        return patterns

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
    except SettingsError as error:
        raise SettingsInvalid(f'Settings cannot be used: {error}. A list is written as JSON: ["a", "b"].') from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsInvalid(f"'interlock.toml' cannot be read: {error}.") from error
    except RecursionError as error:
        raise SettingsInvalid("Settings cannot be used: a value is nested too deep.") from error
