"""The settings of the analyst: its tools and limits, its users and policy, the warehouse and the documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from interlock.settings import AgentSettings, check_patterns

__all__ = ["POLICY", "AnalystSettings"]

# The beginning of a request: the start of a clause, after polite words. "Did they ask us to delete it?" is a question, not a request.
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
"""The default patterns of refused questions: requests to change data, and requests for secrets. Questions about either are allowed."""


class AnalystSettings(AgentSettings):
    """What can be set for the analyst alone."""

    analyst_tools: Annotated[tuple[str, ...], Field(description="the tools that analyst may use")] = ("bq_query", "search", "calculate")
    analyst_retries: Annotated[int, Field(ge=0, le=20, description="how often analyst plans again when its tools find nothing")] = 2
    analyst_window: Annotated[int, Field(ge=2, description="how many messages analyst keeps unchanged; older ones are summarised")] = 20
    analyst_characters: Annotated[int, Field(ge=1, description="the maximum length of a question to analyst, in characters")] = 32_000
    analyst_denied: Annotated[tuple[str, ...], Field(description="patterns of questions that analyst refuses")] = POLICY
    profiles_path: Annotated[Path | None, Field(description="a TOML file of users: which tools each may use, and what each prefers")] = None
    warehouse: Annotated[str, Field(description="what `bq_query` queries: `demo`, `duckdb:PATH` or `bigquery:PROJECT.DATASET`")] = "demo"
    warehouse_bytes: Annotated[int, Field(ge=1, description="the maximum number of bytes that BigQuery may bill for one query")] = 10**9
    documents_path: Annotated[Path | None, Field(description="a folder with documents for `search`, instead of the demo ones")] = None

    @field_validator("analyst_denied")
    @classmethod
    def _check_denied(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        return check_patterns(patterns)
