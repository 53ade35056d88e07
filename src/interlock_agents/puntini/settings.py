"""The settings of puntini: where its property graphs are stored, and the limits of a query."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr

from interlock.secrets import SecretUrl
from interlock.settings import AgentSettings

__all__ = ["PuntiniSettings"]


class PuntiniSettings(AgentSettings):
    """The settings that only puntini has."""

    graph_url: Annotated[
        SecretUrl | None,
        Field(description="where property graphs are kept: `bolt://...` or `neo4j://...`; files where it is not set"),
    ] = None
    graph_user: Annotated[str, Field(description="the user at the graph server")] = "neo4j"
    graph_password: Annotated[SecretStr | None, Field(description="the password at the graph server")] = None
    graph_database: Annotated[str, Field(description="the database there; `{graph}` in it stands for the session")] = "neo4j"
    graph_seconds: Annotated[float, Field(gt=0, description="how long a query of a graph may take")] = 10.0
    graph_bytes: Annotated[int, Field(ge=1, description="how much a query of a graph may return, in bytes")] = 1_000_000
