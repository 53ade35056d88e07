"""The serializer of checkpoints. Its bytes can only become plain data and records of a closed list of classes.

LangGraph's own serializer imports and calls what a checkpoint names. Here a checkpoint can name only the kinds in the table below
and the classes that the serializer was created with. Anything else in it is StoreCorrupt; a value that cannot be stored is
StateUnstorable.

    tag       `interlock1`, the only one, followed by the seal of the graph that the value belongs to
    bytes     CRC-32 of the rest (it finds damage, not intent), then the rest in msgpack
    values    None, bool, int of 64 bits, float, str, bytes, list, and dict with text keys are msgpack's own
    others    a list that starts with an extension, which no plain list does: its payload is the kind, the parts follow
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import uuid
import zlib
import zoneinfo
from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any, cast

import ormsgpack

# LangGraph itself puts these into checkpoints.
from langgraph.checkpoint.serde.types import _DeltaSnapshot as DeltaSnapshot  # pyright: ignore[reportPrivateUsage] - it has no other name
from langgraph.types import Interrupt, Overwrite, Send, TimeoutPolicy
from pydantic import BaseModel, RootModel
from pydantic_core import TzInfo

from interlock.contract.schema import ValidationError, error_summary, exact_validator, try_validate
from interlock.contract.type_hints import is_named_tuple, is_record
from interlock.engine.messages import Shown
from interlock.errors import InterlockError, StateIncompatible, StateUnstorable, StoreCorrupt

__all__ = ["DEEPEST", "TAG", "ClosedSerializer"]

TAG = "interlock1"
"""The type under which every value is stored."""

DEEPEST = 100
"""How deep containers and records may be nested."""

# Characters of a seal that are stored.
_SEAL = 16
_EXTENSION = 1
_CHECKSUM = 4
_NATIVE = frozenset({NoneType, bool, float, str, bytes})
_LEAST, _MOST = -(2**63), 2**64 - 1

_class: Callable[[Any], type[Any]] = type


@dataclasses.dataclass(frozen=True, eq=False)
class _Kind:
    """A kind of value that msgpack does not have: how to split it into parts, and how to create it from them."""

    name: bytes
    to_parts: Callable[[Any], Iterable[Any]] = list
    from_parts: Callable[[list[Any]], Any] = list

    @functools.cached_property
    def extension(self) -> ormsgpack.Ext:
        return ormsgpack.Ext(_EXTENSION, self.name)


class ClosedSerializer:
    """Converts plain data, and instances of the given classes, to bytes and back to equal values.

    The classes are dataclasses, pydantic models, named tuples and enums; subclasses are not included. A TypedDict is a dict and need
    not be given. An exception, which LangGraph stores when a node has failed, is stored as its name and message.
    """

    def __init__(self, types: Iterable[type] = (), *, seal: str = "") -> None:
        """`seal` identifies the graph that values belong to. Values with another seal are StateIncompatible."""
        self._tag = f"{TAG}:{seal[:_SEAL]}" if seal else TAG
        named: dict[str, set[type]] = collections.defaultdict(set)
        for kind in types:
            named[f"{kind.__module__}.{kind.__qualname__}"].add(kind)
        # A name that two classes have could mean either, so neither can be stored.
        closed = {name: kinds.pop() for name, kinds in named.items() if len(kinds) == 1}
        self._enums = {name: kind for name, kind in closed.items() if issubclass(kind, enum.Enum)}
        records = {name: kind for name, kind in closed.items() if is_named_tuple(kind) or (is_record(kind) and not issubclass(kind, dict))}
        self._records = {name: _Record(kind) for name, kind in records.items()}
        self._names = {kind: name for name, kind in closed.items() if name in self._enums or name in self._records}

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        try:
            packed = ormsgpack.packb(self._pack(_error_text(obj) if isinstance(obj, BaseException) else obj, DEEPEST))
        except InterlockError:
            raise
        except ormsgpack.MsgpackEncodeError as error:
            # It describes the problem and does not quote the text.
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - a property of a record can raise anything
            reason = f"{type(error).__name__} was raised"
        else:
            return self._tag, zlib.crc32(packed).to_bytes(_CHECKSUM) + packed
        raise StateUnstorable(f"A value of class '{type(obj).__qualname__}' cannot be stored: {reason}.")

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        tag, stored = cast("tuple[object, object]", data)
        if tag != self._tag and isinstance(tag, str) and tag.partition(":")[0] == TAG:
            raise StateIncompatible("A checkpoint is of a graph with other contracts; it is left as it is.")
        if tag != self._tag:
            raise StoreCorrupt(f"A checkpoint was not written by Interlock: it has the type {tag!r:.50}; it is left as it is.")
        if not isinstance(stored, bytes | bytearray | memoryview):
            raise StoreCorrupt("A checkpoint holds no bytes; it is left as it is.")
        whole = bytes(cast("bytes", stored))
        packed = whole[_CHECKSUM:]
        if zlib.crc32(packed).to_bytes(_CHECKSUM) != whole[:_CHECKSUM]:
            raise StoreCorrupt("A checkpoint is damaged: its checksum does not match; it is left as it is.")
        try:
            return self._unpack(ormsgpack.unpackb(packed, ext_hook=_extension), DEEPEST)
        except StoreCorrupt:
            raise
        except Exception as error:  # noqa: BLE001 - a damaged checkpoint can make a record raise anything
            reason = type(error).__name__
        raise StoreCorrupt(f"A checkpoint holds something that cannot be read ({reason}); it is left as it is.")

    def _pack(self, value: Any, depth: int) -> Any:
        """Convert a value to what msgpack can encode. `depth` is how deep it may still be nested."""
        kind = _class(value)
        if kind in _NATIVE:
            return value
        if kind is int:
            return value if _LEAST <= value <= _MOST else [_INT.extension, value.to_bytes(value.bit_length() // 8 + 1, signed=True)]
        if depth == 0:
            raise StateUnstorable(f"A value cannot be stored: more than {DEEPEST} containers are inside one another.")
        depth -= 1
        if kind is list:
            return [item if type(item) in _NATIVE else self._pack(item, depth) for item in value]
        if kind is dict and all(type(key) is str for key in value):
            return {key: item if type(item) in _NATIVE else self._pack(item, depth) for key, item in value.items()}
        if kind in self._names:
            return self._pack_record(value, depth)
        plain = _BY_CLASS.get(kind)
        if plain is None:
            raise StateUnstorable(f"A value of class '{kind.__qualname__}' cannot be stored: it is not one of the state's classes.")
        parts = [self._pack(part, depth) for part in plain.to_parts(value)]
        if kind is set or kind is frozenset:
            # Equal sets have equal bytes in every process.
            parts.sort(key=ormsgpack.packb)
        return [plain.extension, *parts]

    def _pack_record(self, value: Any, depth: int) -> Any:
        name = self._names[type(value)]
        if isinstance(value, enum.Enum):
            return [_ENUM.extension, name, value.value if isinstance(value, enum.Flag) else value.name]
        fields, given = self._records[name].fields_of(value)
        reduced = {field: self._pack(part, depth) for field, part in fields.items()}
        return [_RECORD.extension, name, reduced, *([sorted(given)] if given is not None else ())]

    def _unpack(self, value: Any, depth: int) -> Any:
        """Convert what msgpack decoded to the value that was packed."""
        kind = _class(value)
        if kind is not list and kind is not dict:
            if kind is _Kind:
                raise StoreCorrupt("A checkpoint names a kind where no value begins; it is left as it is.")
            return value
        made = value[0] if kind is list and value and type(value[0]) is _Kind else None
        if made is _INT:
            return int.from_bytes(_exactly(bytes, _one(value[1:])), signed=True)
        if depth == 0:
            raise StoreCorrupt(f"A checkpoint holds more than {DEEPEST} containers inside one another; it is left as it is.")
        depth -= 1
        if kind is dict:
            return {key: item if type(item) in _NATIVE else self._unpack(item, depth) for key, item in value.items()}
        if made is None:
            return [item if type(item) in _NATIVE else self._unpack(item, depth) for item in value]
        if made is _RECORD:
            return self._unpack_record(depth, *value[1:])
        if made is _ENUM:
            return self._unpack_member(*value[1:])
        return made.from_parts([self._unpack(part, depth) for part in value[1:]])

    def _unpack_record(self, depth: int, name: str, fields: dict[str, Any], given: list[str] | None = None) -> Any:
        record = self._records.get(name)
        if record is None:
            raise StoreCorrupt("A checkpoint holds a record of a class that is not one of the state's; it is left as it is.")
        made = record.create({field: self._unpack(part, depth) for field, part in fields.items()})
        if isinstance(made, ValidationError):
            raise StoreCorrupt(f"A checkpoint holds a '{name}' that does not fit its class: {error_summary(made)}; it is left as it is.")
        if given is not None:
            made.model_fields_set.intersection_update(given)
        return made

    def _unpack_member(self, name: str, member: Any) -> Any:
        kind = self._enums.get(name)
        if kind is None:
            raise StoreCorrupt("A checkpoint holds a member of a class that is not one of the state's; it is left as it is.")
        return kind(_exactly(int, member)) if issubclass(kind, enum.Flag) else kind.__members__[_exactly(str, member)]


class _Record:
    """Splits the records of one class into fields, and creates them from fields by validation."""

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind

    def fields_of(self, value: Any) -> tuple[dict[str, Any], set[str] | None]:
        """Return the fields of a record and, for a pydantic model, which of them were set.

        Raises StateUnstorable where the fields would not create an equal record.
        """
        given: set[str] | None = None
        derived: tuple[str, ...] = ()
        if isinstance(value, BaseModel):
            own = {name: value.__dict__[name] for name in type(value).model_fields if name in value.__dict__}
            fields: dict[str, Any] = own | (value.__pydantic_extra__ or {})
            derived = ("__pydantic_private__",)
            given = value.model_fields_set if value.model_fields_set != fields.keys() else None
        elif isinstance(value, tuple):
            fields = cast("Any", value)._asdict()
        else:
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
            derived = tuple(field.name for field in dataclasses.fields(value) if not field.init)
        made = self.create(fields)
        if isinstance(made, ValidationError):
            raise StateUnstorable(f"A '{self._kind.__qualname__}' cannot be stored: it does not fit its own class: {error_summary(made)}.")
        if any(getattr(made, name) != getattr(cast("Any", value), name) for name in derived):
            raise StateUnstorable(f"A '{self._kind.__qualname__}' cannot be stored: it holds something that is not in its fields.")
        return fields, given

    def create(self, fields: dict[str, Any]) -> Any:
        """Create a record from its fields, or return the ValidationError."""
        return try_validate(self._validate, fields["root"] if issubclass(self._kind, RootModel) else fields)

    @functools.cached_property
    def _validate(self) -> Callable[[Any], Any]:
        return exact_validator(self._kind)


def _error_text(error: BaseException) -> str:
    """Describe an exception. A lone surrogate is escaped, because msgpack cannot encode it."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the exception may be of any class
        text = ""
    return f"{type(error).__name__}: {text}".encode("utf-8", "backslashreplace").decode()


def _extension(code: int, data: bytes) -> _Kind:
    if code != _EXTENSION:
        raise ValueError(code)
    return _BY_NAME[data]


def _exactly(kind: type[Any], value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(kind)
    return value


def _ints(parts: list[Any], count: int) -> list[int]:
    """Check that there are `count` parts, all of them integers: the constructors of times also accept bytes."""
    if len(parts) != count:
        raise ValueError(parts)
    return [_exactly(int, part) for part in parts]


def _unique(made: Any, parts: list[Any]) -> Any:
    if len(made) != len(parts):
        raise ValueError(parts)
    return made


def _dict(parts: list[Any]) -> dict[Any, Any]:
    keys = parts[::2]
    return _unique(dict(zip(keys, parts[1::2], strict=True)), keys)


def _zone_parts(zone: dt.tzinfo | None) -> list[Any]:
    """Return the parts of a time zone: none, its key, or the offset in microseconds and the name, if it has one of its own."""
    match zone:
        case None:
            return []
        case zoneinfo.ZoneInfo() if type(zone) is zoneinfo.ZoneInfo and zone.key in _zone_keys():
            return [zone.key]
        case dt.timezone() | TzInfo():
            offset = cast("dt.timedelta", zone.utcoffset(None))
            name = zone.tzname(None) if isinstance(zone, dt.timezone) else None
            return [offset // _MICROSECOND, name if name != dt.timezone(offset).tzname(None) else None]
        case _:
            raise StateUnstorable(f"A time cannot be stored: its zone is of class '{type(zone).__qualname__}'.")


def _zone(parts: list[Any]) -> dt.tzinfo | None:
    if not parts:
        return None
    if len(parts) == 1:
        # ZoneInfo would look for a file of that name.
        if parts[0] not in _zone_keys():
            raise ValueError(parts)
        return zoneinfo.ZoneInfo(parts[0])
    offset, name = parts
    made = dt.timedelta(microseconds=_exactly(int, offset))
    return dt.timezone(made) if name is None else dt.timezone(made, _exactly(str, name))


@functools.cache
def _zone_keys() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


_MICROSECOND = dt.timedelta(microseconds=1)
_CLOCK = ("hour", "minute", "second", "microsecond")


def _time_kind(name: bytes, kind: type[Any], *attributes: str) -> _Kind:
    """Return a kind of date or time that consists of integer attributes and, where its class has one, a time zone."""
    count, has_zone = len(attributes), hasattr(kind, "tzinfo")

    def to_parts(value: Any) -> list[Any]:
        return [*(getattr(value, attribute) for attribute in attributes), *(_zone_parts(value.tzinfo) if has_zone else ())]

    def from_parts(parts: list[Any]) -> Any:
        values = dict(zip(attributes, _ints(parts[:count] if has_zone else parts, count), strict=True))
        return kind(**values, **({"tzinfo": _zone(parts[count:])} if has_zone else {}))

    return _Kind(name, to_parts, from_parts)


def _interrupt(parts: list[Any]) -> Interrupt[Any]:
    value, own_id, schema = parts
    return Interrupt(value=value, id=_exactly(str, own_id), response_schema=None if schema is None else _exactly(dict, schema))


def _send_parts(value: Send) -> list[Any]:
    policy = value.timeout
    return [value.node, value.arg, None if policy is None else [policy.run_timeout, policy.idle_timeout, policy.refresh_on]]


def _send(parts: list[Any]) -> Send:
    node, arg, timeout = parts
    if timeout is None:
        return Send(_exactly(str, node), arg)
    run, idle, refresh = timeout
    return Send(_exactly(str, node), arg, timeout=TimeoutPolicy(run_timeout=run, idle_timeout=idle, refresh_on=refresh))


def _one(parts: list[Any]) -> Any:
    (part,) = parts
    return part


_INT, _ENUM, _RECORD = _Kind(b"int"), _Kind(b"enum"), _Kind(b"record")
_BY_CLASS: dict[type, _Kind] = {
    tuple: _Kind(b"tuple", tuple, tuple),
    set: _Kind(b"set", list, lambda parts: _unique(set(parts), parts)),
    frozenset: _Kind(b"frozenset", list, lambda parts: _unique(frozenset(parts), parts)),
    dict: _Kind(b"dict", lambda value: (part for item in value.items() for part in item), _dict),
    decimal.Decimal: _Kind(b"decimal", lambda value: [str(value)], lambda parts: decimal.Decimal(_exactly(str, _one(parts)))),
    uuid.UUID: _Kind(b"uuid", lambda value: [value.bytes], lambda parts: uuid.UUID(bytes=_exactly(bytes, _one(parts)))),
    dt.datetime: _time_kind(b"datetime", dt.datetime, "year", "month", "day", *_CLOCK, "fold"),
    dt.date: _time_kind(b"date", dt.date, "year", "month", "day"),
    dt.time: _time_kind(b"time", dt.time, *_CLOCK, "fold"),
    dt.timedelta: _time_kind(b"timedelta", dt.timedelta, "days", "seconds", "microseconds"),
    Interrupt: _Kind(b"interrupt", lambda value: [value.value, value.id, value.response_schema], _interrupt),
    Send: _Kind(b"send", _send_parts, _send),
    Overwrite: _Kind(b"overwrite", lambda value: [value.value], lambda parts: Overwrite(_one(parts))),
    # It is restored as its records, which every channel accepts.
    Shown: _Kind(b"shown", lambda value: [value.records], _one),
    DeltaSnapshot: _Kind(b"snapshot", lambda value: [value.value], lambda parts: DeltaSnapshot(_one(parts))),
}
_BY_NAME = {kind.name: kind for kind in (_INT, _ENUM, _RECORD, *_BY_CLASS.values())}
