"""Runs a turn again from one of its steps, in a new session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from interlock.server.auth import OPERATOR
from interlock.server.projections import turn_shape
from interlock.server.request_errors import NotAllowed
from interlock.server.routing import Json, Operation, ServerRoute, principal_of, read_body, server_of
from interlock.server.shapes import TurnShape

if TYPE_CHECKING:
    from interlock.server.app import Server

__all__ = ["routes"]


class ForkBody(BaseModel):
    """The step from which to run again, from 1, and a name for the new session. Without a name it has the id of the new turn."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    step: int = Field(ge=1, le=1_000_000)
    session: str | None = None


async def fork_turn(request: Request) -> Response:
    """Accept a turn that runs on from a step of another one. It is for its own caller, and for operators: it reads what that one read."""
    server, principal = server_of(request), principal_of(request)
    turn = await server.service.get(principal, request.path_params["turn"])
    if turn.principal != principal.identity and not principal.has(OPERATOR):
        raise NotAllowed("The turn is another caller's. Fix: ask an operator to run it again.")
    body = await read_body(request, ForkBody)
    forked = await server.service.fork(principal, turn, step=body.step, session=body.session)
    request.state.turn, request.state.session = forked.turn, forked.session
    return Json(turn_shape(server, forked, is_full=True), 202, {"location": f"/api/turns/{forked.turn}"})


def routes(_: Server) -> list[ServerRoute]:
    """Return the route of forks."""
    described = Operation(summary="Run a turn again from a step, in a new session", body=ForkBody, responses={202: TurnShape})
    return [ServerRoute("POST", "/api/turns/{turn}/fork", fork_turn, operation=described)]
