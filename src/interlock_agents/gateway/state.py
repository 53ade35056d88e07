"""The states of the two graphs, and the outcomes of their nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from interlock.contract import Control, Outcome, Secret, Trusted, Untrusted
from interlock_agents.gateway.roles import Route

__all__ = ["AdminOrigin", "Answered", "Crossed", "Forwarded", "GlobalState", "Responded", "Returned", "UnsafeState", "UserOrigin"]

AdminOrigin = Literal["admin_cli", "supervisor", "bridge"]
UserOrigin = Literal["user_cli", "bridge"]


@dataclass
class GlobalState:
    """gateway.admin."""

    admin_input: Annotated[str, Untrusted] = ""
    origin: Annotated[AdminOrigin, Control] = "admin_cli"
    origin_seal: Annotated[str, Secret] = ""
    """Shows that the supervisor, and no caller, sends this input on."""
    route: Annotated[Route, Control] = "respond_admin"
    supervisor_response: Annotated[str, Untrusted] = ""
    bridge_admin_input: Annotated[str, Untrusted] = ""
    bridge_seal: Annotated[str, Secret] = ""
    """Shows that this input came over the bridge."""
    customer_response: Annotated[str, Untrusted] = ""
    secret_key_ref: Annotated[str, Trusted] = ""
    """The name of the secret that the supervisor fetched for its worker. The secret itself is in no state."""
    secret_context: Annotated[str, Trusted] = ""
    """Which secret was used and what for, in words. The secret itself is in no state."""


@dataclass
class UnsafeState:
    """gateway.user."""

    user_input: Annotated[str, Untrusted] = ""
    bridge_input: Annotated[str, Untrusted] = ""
    origin: Annotated[UserOrigin, Control] = "user_cli"
    response: Annotated[str, Untrusted] = ""


class Answered(Outcome):
    """The supervisor has answered the admin."""

    supervisor_response: str
    secret_key_ref: str
    secret_context: str
    origin: Literal["supervisor"] = "supervisor"
    route: Literal["respond_admin"] = "respond_admin"


class Forwarded(Outcome):
    """The text is for the customer side. The seal shows that the supervisor forwarded it."""

    origin_seal: str
    origin: Literal["supervisor"] = "supervisor"
    route: Literal["route_bridge"] = "route_bridge"


class Crossed(Outcome):
    """The admin's text crosses the bridge, and nothing else."""

    bridge_admin_input: str
    bridge_seal: str
    origin: Literal["bridge"] = "bridge"


class Returned(Outcome):
    """The reply of the customer side."""

    customer_response: str


class Responded(Outcome):
    """The answer of the customer side."""

    response: str
