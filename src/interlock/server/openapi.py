"""The description of the API in OpenAPI 3.1, generated from the routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from interlock.server.problems import MEDIA_TYPE
from interlock.server.routing import Access, Json, Operation, ServerRoute, server_of

if TYPE_CHECKING:
    from interlock.server.app import Server

__all__ = ["describe", "routes"]

_REF = "#/components/schemas/{model}"
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
    },
}


def describe(routes: Iterable[ServerRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of routes that have an operation."""
    schemas: dict[str, Any] = {"Problem": _PROBLEM}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if route.operation is not None:
            path = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path)
            paths.setdefault(path, {})[route.method.lower()] = _operation(route, route.operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Interlock", "version": version("interlock")},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
    }


def _operation(route: ServerRoute, operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in route.param_convertors
    ]
    for one in operation.parameters:
        schema = {"type": one.type}
        parameters.append({"name": one.name, "in": one.where, "required": False, "description": one.description, "schema": schema})
    responses: dict[str, Any] = {
        str(status): _response(shape, operation, schemas) if shape is not None else {"description": "Done"}
        for status, shape in operation.responses.items()
    }
    responses["default"] = {
        "description": "The request was refused",
        "content": {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}},
    }
    described: dict[str, Any] = {"summary": operation.summary, "parameters": parameters, "responses": responses}
    described["security"] = [] if route.access is Access.OPEN else [{"bearer": []}, {"key": []}]
    described["x-interlock-access"] = route.access.value
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": _schema(operation.body, schemas)}}}
    return described


def _response(shape: Any, operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {operation.media_type: {"schema": _schema(shape, schemas)}}
    if operation.events:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": "Success", "content": content}


def _schema(shape: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    found = TypeAdapter(shape).json_schema(ref_template=_REF, mode="serialization" if not hasattr(shape, "model_config") else "validation")
    schemas |= found.pop("$defs", {})
    if "title" not in found or found.get("type") != "object":
        return found
    schemas[found["title"]] = found
    return {"$ref": _REF.format(model=found["title"])}


async def document(request: Request) -> Response:
    """Return the OpenAPI document."""
    return Json(describe(server_of(request).routes))


def routes(_: Server) -> list[ServerRoute]:
    """Return the route of the description."""
    described = Operation(summary="This description", responses={200: dict[str, Any]})
    return [ServerRoute("GET", "/openapi.json", document, access=Access.OPEN, operation=described)]
