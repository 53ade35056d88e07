"""A Python function with type hints as a tool."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import typing
import warnings
from collections.abc import Callable
from functools import reduce
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from interlock.adapters.tools.threads import Threads
from interlock.capabilities.model import Tool
from interlock.errors import SettingsInvalid, ToolInputInvalid, ToolUnavailable

__all__ = ["MAX_THREADS", "FunctionTool", "load_function"]

MAX_THREADS = 16
"""How many calls of one function that is not async run at once; the others wait. One that hangs takes one place until it ends."""

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class FunctionTool:
    """Checks arguments against the hints of a function and calls it; one that is not async runs in a thread.

    The tool's description is the first line of the function's docstring, where no other is given. A ToolError that the function
    raises is told to whoever asked; of any other exception only the kind is. A ConnectionError is one that may pass.
    """

    def __init__(self, name: str, function: Callable[..., Any], *, description: str | None = None) -> None:
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - is it async, not is it callable
        self._names, self._arguments = _arguments(name, function)
        self._threads = Threads(MAX_THREADS)
        self.tool = Tool(name=name, description=description or _description(name, function), parameters=_schema(name, self._arguments))

    async def run(self, args: dict[str, JsonValue]) -> object:
        """Call the function; arguments that do not fit are a ToolInputInvalid."""
        given = self._checked(args)
        try:
            result = await (self._function(**given) if self._is_async else self._threads.run(lambda: self._function(**given)))
            return await result if inspect.isawaitable(result) else result
        except ConnectionError as error:
            raise ToolUnavailable(f"'{self.tool.name}' does not reach what it needs: {type(error).__name__}.") from error

    def _checked(self, args: dict[str, JsonValue]) -> dict[str, Any]:
        try:
            # Strict, and by way of JSON: "5" is no number, but a date is a text and a tuple a list.
            checked = self._arguments.model_validate_json(json.dumps(args), strict=True)
        except ValidationError as error:
            raise ToolInputInvalid(_wrong(error)) from None
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolInputInvalid("The arguments are not JSON data.") from error
        return {self._names[field]: getattr(checked, field) for field in checked.model_fields_set}


def load_function(name: str, target: str | Callable[..., Any]) -> FunctionTool:
    """Make a tool of a function, or of MODULE:FUNCTION in a module that can be imported from the current directory."""
    if not isinstance(target, str):
        return FunctionTool(name, target)
    module, _, attribute = target.partition(":")
    if not module or not attribute:
        raise SettingsInvalid(f"Tool '{name}' has the function '{target}'. Write MODULE:FUNCTION.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = reduce(getattr, attribute.split("."), importlib.import_module(module))
    except (Exception, SystemExit) as error:
        raise SettingsInvalid(f"Tool '{name}': '{target}' cannot be loaded: {type(error).__name__}: {error}.") from error
    return FunctionTool(name, found)


class _Schema(GenerateJsonSchema):
    """Leaves out what a model has no use for: a title for every field, and a warning for a default that JSON does not have."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
        return False


def _arguments(name: str, function: Callable[..., Any]) -> tuple[dict[str, str], type[BaseModel]]:
    """Make a pydantic class of a function's parameters."""
    if inspect.isclass(function) or not callable(function):
        raise SettingsInvalid(f"Tool '{name}' is a {type(function).__name__}, not a function.")
    parameters = inspect.signature(function).parameters.values()
    try:
        hints = typing.get_type_hints(_hinted(function), include_extras=True)
    except Exception as error:
        raise SettingsInvalid(f"Tool '{name}' has a type hint that cannot be resolved: {error}.") from error
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for parameter in parameters:
        if parameter.kind not in _NAMED:
            raise SettingsInvalid(f"Tool '{name}' takes '{parameter}'. Give every parameter a name that it can be passed by.")
        if parameter.name not in hints:
            raise SettingsInvalid(f"Tool '{name}': parameter '{parameter.name}' has no type hint. Write '{parameter.name}: str'.")
        # By an alias: a parameter may have a name that a pydantic class needs for itself.
        field = f"argument_{len(names)}"
        names[field] = parameter.name
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        fields[field] = (hints[parameter.name], Field(default, alias=parameter.name))
    config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())
    try:
        return names, create_model("Arguments", __config__=config, **fields)
    except (PydanticUserError, TypeError, ValueError) as error:
        raise SettingsInvalid(f"Tool '{name}' has a type hint that cannot be checked: {_first_line(error)}.") from error


def _hinted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return where the hints of a function are: a partial, or an object that can be called, keeps them elsewhere."""
    inner: Any = getattr(function, "func", function)
    return inner if inspect.isroutine(inner) else cast("Any", type(inner)).__call__


def _description(name: str, function: Callable[..., Any]) -> str:
    found = inspect.getdoc(_hinted(function)) or ""
    first = found.strip().partition("\n")[0].strip()
    if not first:
        raise SettingsInvalid(f"Tool '{name}' has no docstring. Write one: its first line tells a model what the tool is for.")
    return first


def _schema(name: str, arguments: type[BaseModel]) -> dict[str, JsonValue]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            schema = arguments.model_json_schema(schema_generator=_Schema)
    except Exception as error:
        raise SettingsInvalid(f"Tool '{name}' has a type hint that JSON cannot express: {_first_line(error)}.") from error
    del schema["title"]
    return {"properties": {}, **schema}


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def _wrong(error: ValidationError) -> str:
    """Say what is wrong with arguments, without what was passed: it may be a secret."""
    said: list[str] = []
    for problem in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "missing":
            said.append(f"Argument '{where}' is missing.")
        elif problem["type"] == "extra_forbidden":
            said.append(f"Argument '{where}' is unknown.")
        elif where:
            said.append(f"Argument '{where}' cannot be used: {problem['msg']}.")
        else:
            said.append("The arguments are not JSON data.")
    return " ".join(said)
