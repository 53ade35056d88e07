"""A capability's method as it is declared: what a call takes, what it returns, and how it appears in events and in the journal."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_args

from pydantic import PydanticSchemaGenerationError, PydanticUserError

from interlock.capabilities.capability import asks_model, event_kind, is_stream, takes_no_time
from interlock.contract.labels import is_secret
from interlock.contract.schema import Codec, ValidationError, Write, error_summary, json_writer, strict_validator, try_validate
from interlock.contract.type_hints import class_parameter, is_generic, resolve_hints, substitute_type, unwrap_annotated
from interlock.errors import CapabilityError, CapabilityResultInvalid, ContractViolation, InterlockError, TurnError

__all__ = ["Args", "Kwargs", "Method", "declared_method"]

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

_EVENT_PARTS = 2
"""A custom event has a name and data."""


class Method:
    """One method of a capability, whichever adapter implements it."""

    def __init__(self, capability: type, name: str) -> None:
        declared = getattr(capability, name)
        parameters = dict(resolve_hints(declared).resolved)
        returned = parameters.pop("return")
        self.capability = capability.__name__
        self.name = name
        self.label = f"{self.capability}.{name}"
        self.is_stream = is_stream(declared)
        self.asks_model = asks_model(capability, name)
        self.is_instant = takes_no_time(capability, name)
        self.event = event_kind(capability, name)
        self.returns_secret = is_secret(returned)
        self.secret_parameters = frozenset(parameter for parameter, hint in parameters.items() if is_secret(hint))
        self.parameter_count = len(parameters)
        self._signature = inspect.signature(declared)
        self._hint, _ = unwrap_annotated(get_args(returned)[0] if self.is_stream else returned)
        self._result_class_parameter = class_parameter(parameters) if is_generic(self._hint) else None
        self._validate = None if self._result_class_parameter else strict_validator(self._hint)
        self._validators: dict[Any, Callable[[Any], Any]] = {}
        self._codecs: dict[Any, Codec[Any]] = {}
        arguments = tuple[tuple(parameters.values())]
        self._check_event = strict_validator(arguments) if self.event == "custom" else None
        self.write_arguments = _writer(arguments) if parameters else None
        self.write_result = None if self._result_class_parameter or self.is_stream or self.returns_secret else _writer(self._hint)

    def arguments(self, args: Args, kwargs: Kwargs) -> dict[str, Any]:
        """Return the arguments of a call by name."""
        bound = self._signature.bind(None, *args, **kwargs).arguments
        bound.pop(next(iter(bound)))
        return bound

    def custom_event(self, args: Args, kwargs: Kwargs) -> dict[str, Any]:
        """Return the name and the data of a custom event, by parameter. Raises ContractViolation for arguments of other types."""
        try:
            given = self.arguments(args, kwargs)
        except TypeError:
            given = {}
        values = tuple(given.values())
        if len(given) != _EVENT_PARTS or self._check_event is None or isinstance(try_validate(self._check_event, values), ValidationError):
            raise ContractViolation(f"'{self.label}' was called with something else than the name and the data of an event.")
        return given

    def validator(self, args: Args, kwargs: Kwargs) -> Callable[[Any], Any]:
        """Return the function that validates a result of this call, or one chunk of it."""
        if self._validate is not None:
            return self._validate
        kind, hint = self._returned(args, kwargs)
        if kind not in self._validators:
            self._validators[kind] = strict_validator(hint)
        return self._validators[kind]

    def codec(self, args: Args, kwargs: Kwargs) -> Codec[Any]:
        """Return the codec of this call's result, or of one chunk of it."""
        kind, hint = self._returned(args, kwargs)
        if kind not in self._codecs:
            self._codecs[kind] = Codec(hint)
        return self._codecs[kind]

    def _returned(self, args: Args, kwargs: Kwargs) -> tuple[Any, Any]:
        """Return the class that a generic call was given, None for another call, and the type of its result."""
        parameter = self._result_class_parameter
        if parameter is None:
            return None, self._hint
        kind = kwargs[parameter] if parameter in kwargs else self.arguments(args, kwargs)[parameter]
        return kind, substitute_type(self._hint, kind)

    def typed_error(self, error: BaseException) -> InterlockError:
        """Return the typed error for an exception that an adapter raised or that its result caused."""
        if isinstance(error, TurnError):
            # An adapter may raise the same instance twice, in different nodes.
            error.node = error.turn = None
        if isinstance(error, InterlockError):
            return error
        if isinstance(error, ValidationError):
            why = "" if self.returns_secret else f": {error_summary(error)}"
            return CapabilityResultInvalid(f"'{self.label}' returned something else{why}.")
        return CapabilityError(f"'{self.label}' failed: {type(error).__name__}.")


@functools.lru_cache(maxsize=1024)
def declared_method(capability: type, name: str) -> Method:
    """Return the declaration of a method. It is built once: building its validators and writers takes long."""
    return Method(capability, name)


def _writer(hint: Any) -> Write | None:
    """Return the function that writes values of a type as JSON; None for a type that pydantic has no schema for."""
    try:
        return json_writer(hint)
    except (PydanticSchemaGenerationError, PydanticUserError):
        return None
