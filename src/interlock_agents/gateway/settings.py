"""The settings of the gateway: the files of its workers, the keywords of its bridge, and the admin's secret."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from interlock.settings import AgentSettings

__all__ = ["GatewaySettings"]


class GatewaySettings(AgentSettings):
    """Settings that only the gateway has."""

    gateway_path: Annotated[
        Path | None, Field(description="a folder with `admin` and `docs` for gateway's workers; demo files by default")
    ] = None
    gateway_keywords: Annotated[
        tuple[str, ...], Field(min_length=1, description="words of which an admin's text must have one to cross gateway's bridge")
    ] = (
        *("docs", "documentation", "documents", "customer", "customers", "users"),
        *("user document", "user documents", "knowledge base", "handbook"),
    )
    gateway_customer_writes: Annotated[bool, Field(description="whether gateway's customer side may write documents too")] = False
    gateway_file_bytes: Annotated[int, Field(ge=1, description="the largest file that gateway's workers read or write")] = 10_000_000
    gateway_secrets: Annotated[
        dict[str, str], Field(description="secrets for gateway's admin side: names, each with its `env:VARIABLE` or `file:PATH`")
    ] = {}  # noqa: RUF012 - pydantic copies it
    gateway_secret_ref: Annotated[str | None, Field(description="the name of the secret that gateway's supervisor has for its worker")] = (
        None
    )
