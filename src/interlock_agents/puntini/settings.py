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
        Field(description="the store of property graphs: `bolt://...` or `neo4j://...`; files by default"),
    ] = None
    graph_user: Annotated[str, Field(description="the user at the graph server")] = "neo4j"
    graph_password: Annotated[SecretStr | None, Field(description="the password at the graph server")] = None
    graph_database: Annotated[str, Field(description="the database there; `{graph}` in it is replaced by the session")] = "neo4j"
    graph_seconds: Annotated[float, Field(gt=0, description="the time limit of a query of a graph")] = 10.0
    graph_bytes: Annotated[int, Field(ge=1, description="the maximum number of bytes that a query of a graph returns")] = 1_000_000
