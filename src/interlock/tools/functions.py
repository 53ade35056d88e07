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

from interlock.capabilities.capability import Effect, marks_of
from interlock.capabilities.model import Tool
from interlock.contract.policies import ArgumentPolicy, policy_of
from interlock.contract.type_hints import unwrap_annotated
from interlock.errors import SettingsInvalid, ToolInputInvalid, ToolUnavailable
from interlock.tools.threads import Threads

__all__ = ["KEY", "MAX_THREADS", "FunctionTool", "load_function", "load_target"]

MAX_THREADS = 16
"""How many calls of one synchronous function run concurrently; further calls wait. A call that hangs takes one thread until it ends."""

KEY = "idempotency_key"
"""The parameter that gets the key of a call."""

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class FunctionTool:
    """A Python function as a tool. Validates arguments against its type hints; a synchronous function runs in a thread.

    The description defaults to the first line of the docstring. The caller gets the message of a ToolError that the function
    raises, but only the class name of any other exception. A ConnectionError is transient and may be retried.

    The effect is what the function is marked with (`@asks`, `@keyed`), unless `effect` says it. A parameter `idempotency_key: str` is
    not an argument of the tool: it gets the key of the call, which is the same when a resumed turn makes the call again. Policies of
    arguments are declared by `Annotated`: `to: Annotated[str, Trusted]`.
    """

    def __init__(self, name: str, function: Callable[..., Any], *, description: str | None = None, effect: Effect | None = None) -> None:
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - is it async, not is it callable
        self._names, self._arguments = _arguments(name, function)
        self.effect: Effect = effect or marks_of(_hinted(function)).effect
        self.policies = _policies(function)
        self.takes_key = KEY in inspect.signature(function).parameters
        self._threads = Threads(MAX_THREADS)
        self.tool = Tool(name=name, description=description or _description(name, function), parameters=_schema(name, self._arguments))

    async def run(self, args: dict[str, JsonValue], *, idempotency_key: str = "") -> object:
        """Call the function. Raises ToolInputInvalid if the arguments do not match its type hints."""
        given = self._checked(args)
        if self.takes_key:
            given[KEY] = idempotency_key
        try:
            result = await (self._function(**given) if self._is_async else self._threads.run(lambda: self._function(**given)))
            return await result if inspect.isawaitable(result) else result
        except ConnectionError as error:
            raise ToolUnavailable(f"'{self.tool.name}' could not connect to a service: {type(error).__name__}.") from error

    def _checked(self, args: dict[str, JsonValue]) -> dict[str, Any]:
        try:
            # Strict mode on JSON text: "5" is not a number, but a string is accepted as a date and a list as a tuple.
            checked = self._arguments.model_validate_json(json.dumps(args), strict=True)
        except ValidationError as error:
            raise ToolInputInvalid(_invalid_arguments(error)) from None
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolInputInvalid("The arguments are not JSON data.") from error
        return {self._names[field]: getattr(checked, field) for field in checked.model_fields_set}


def load_function(name: str, target: str | Callable[..., Any]) -> FunctionTool:
    """Create a tool from a function, or from MODULE:FUNCTION. The current directory is on the import path."""
    if not isinstance(target, str):
        return FunctionTool(name, target)
    return FunctionTool(name, load_target(name, target))


def load_target(name: str, target: str) -> Any:
    """Import MODULE:FUNCTION for a tool."""
    module, _, attribute = target.partition(":")
    if not module or not attribute:
        raise SettingsInvalid(f"Tool '{name}' has the function '{target}'. Write MODULE:FUNCTION.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return reduce(getattr, attribute.split("."), importlib.import_module(module))
    except (Exception, SystemExit) as error:
        raise SettingsInvalid(f"Tool '{name}': '{target}' cannot be loaded: {type(error).__name__}: {error}.") from error


class _Schema(GenerateJsonSchema):
    """Generates schemas without a title for every field, and without a warning for a default that JSON cannot express."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
        return False


def _arguments(name: str, function: Callable[..., Any]) -> tuple[dict[str, str], type[BaseModel]]:
    """Create a pydantic class from a function's parameters."""
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
        if parameter.name == KEY:
            continue
        if parameter.kind not in _NAMED:
            raise SettingsInvalid(f"Tool '{name}' takes '{parameter}'. Every parameter must be one that can be passed by name.")
        if parameter.name not in hints:
            raise SettingsInvalid(f"Tool '{name}': parameter '{parameter.name}' has no type hint. Write '{parameter.name}: str'.")
        # By an alias: a parameter may have a name that pydantic reserves.
        field = f"argument_{len(names)}"
        names[field] = parameter.name
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        fields[field] = (hints[parameter.name], Field(default, alias=parameter.name))
    config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())
    try:
        return names, create_model("Arguments", __config__=config, **fields)
    except (PydanticUserError, TypeError, ValueError) as error:
        raise SettingsInvalid(f"Tool '{name}' has a type hint that cannot be checked: {_first_line(error)}.") from error


def _policies(function: Callable[..., Any]) -> dict[str, ArgumentPolicy]:
    """Return the policies that the parameters of a function declare."""
    hints = typing.get_type_hints(_hinted(function), include_extras=True)
    found = {name: policy_of(unwrap_annotated(hint)[1]) for name, hint in hints.items() if name != "return"}
    return {name: policy for name, policy in found.items() if policy is not None}


def _hinted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that has the type hints: the inner one of a partial, or `__call__` of an object."""
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


def _invalid_arguments(error: ValidationError) -> str:
    """Describe invalid arguments without their values, which may be secret."""
    sentences: list[str] = []
    for problem in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "missing":
            sentences.append(f"Argument '{where}' is missing.")
        elif problem["type"] == "extra_forbidden":
            sentences.append(f"Argument '{where}' is unknown.")
        elif where:
            sentences.append(f"Argument '{where}' is invalid: {problem['msg']}.")
        else:
            sentences.append("The arguments are not JSON data.")
    return " ".join(sentences)
