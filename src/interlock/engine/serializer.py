"""What LangGraph keeps in checkpoints, as bytes that can only become plain data and records of a closed list of classes.

LangGraph's own serializer imports and calls what a row names. Here a row names nothing but kinds out of the list below and
records out of the serializer's own list; everything else in it is StoreCorrupt, and what cannot be kept is StateUnstorable.

    tag       `interlock1`, the only one, with the seal of whoever it is for
    bytes     CRC-32 of the rest (it finds damage, not intent), and the rest in msgpack
    values    None, bool, int of 64 bits, float, str, bytes, list and dict with text for keys are msgpack's own
    others    a list that begins with an extension, which no plain list does: its payload is the kind, what it is made of follows
"""

from __future__ import annotations

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
from typing import Any, TypeAlias, cast

import ormsgpack
from langgraph.checkpoint.serde.types import (  # what LangGraph itself puts into checkpoints
    _DeltaSnapshot as DeltaSnapshot,  # pyright: ignore[reportPrivateUsage] - it has no other name
)
from langgraph.types import Interrupt, Overwrite, Send, TimeoutPolicy  # likewise
from pydantic import BaseModel, RootModel
from pydantic_core import TzInfo

from interlock.contract.schema import ValidationError, error_summary, exact_validator, try_validate
from interlock.contract.type_hints import is_named_tuple
from interlock.engine.messages import Shown
from interlock.errors import InterlockError, StateIncompatible, StateUnstorable, StoreCorrupt

__all__ = ["DEEPEST", "TAG", "ClosedSerializer"]

TAG = "interlock1"
"""The type under which everything is kept, and the only one that is read."""

DEEPEST = 100
"""How many containers and records may be inside one another."""

_SEAL = 16  # characters of a seal that are kept
_EXTENSION = 1
_CHECKSUM = 4
_NATIVE = frozenset({NoneType, bool, float, str, bytes})
_LEAST, _MOST = -(2**63), 2**64 - 1

_Apart: TypeAlias = Callable[[Any], Iterable[Any]]
_Together: TypeAlias = Callable[[list[Any]], Any]
_class: Callable[[Any], type[Any]] = type


class _Kind:
    """What a list that begins with its extension stands for: how a value is taken apart, and put together again."""

    def __init__(self, name: bytes, *, apart: _Apart = lambda _: (), together: _Together = lambda _: None) -> None:
        self.name = name
        self.extension = ormsgpack.Ext(_EXTENSION, name)
        self.apart = apart
        self.together = together


class ClosedSerializer:
    """Turns values into bytes and such bytes into equal values, of plain data and of the classes that it is made with.

    The classes are dataclasses, pydantic models, named tuples and enums; a class that inherits from one of them is another
    one. A TypedDict is a dict, and needs no mention. Of an exception, which LangGraph keeps where a node has failed, the
    name and the message stay.
    """

    def __init__(self, types: Iterable[type] = (), *, seal: str = "") -> None:
        """`seal` says whose values they are: those of anybody else are StateIncompatible."""
        self._tag = f"{TAG}:{seal[:_SEAL]}" if seal else TAG
        named: dict[str, type] = {}
        twice: set[str] = set()
        for kind in types:
            name = f"{kind.__module__}.{kind.__qualname__}"
            if named.setdefault(name, kind) is not kind:
                twice.add(name)  # neither is kept: of what is read nobody could tell whose it was
        closed = {name: kind for name, kind in named.items() if name not in twice}
        self._enums = {name: kind for name, kind in closed.items() if issubclass(kind, enum.Enum)}
        self._records = {name: _Record(kind) for name, kind in closed.items() if _has_fields(kind)}
        self._names = {kind: name for name, kind in closed.items() if name in self._enums or name in self._records}

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return a value as the tag and bytes."""
        try:
            packed = ormsgpack.packb(self._reduced(_told(obj) if isinstance(obj, BaseException) else obj, DEEPEST))
        except InterlockError:
            raise
        except ormsgpack.MsgpackEncodeError as error:
            reason = str(error)  # of what is wrong with a text, not the text
        except Exception as error:  # noqa: BLE001 - a property of somebody's record can raise anything
            reason = f"{type(error).__name__} was raised"
        else:
            return self._tag, zlib.crc32(packed).to_bytes(_CHECKSUM) + packed
        raise StateUnstorable(f"A value of class '{type(obj).__qualname__}' cannot be stored: {reason}.")

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value that the tag and bytes stand for."""
        tag, kept = cast("tuple[object, object]", data)
        if tag != self._tag and isinstance(tag, str) and tag.partition(":")[0] == TAG:
            raise StateIncompatible("A checkpoint is of a graph with other contracts; it is left as it is.")
        if tag != self._tag:
            raise StoreCorrupt(f"A checkpoint was not written by Interlock: it has the type {tag!r:.50}; it is left as it is.")
        if not isinstance(kept, bytes | bytearray | memoryview):
            raise StoreCorrupt("A checkpoint holds no bytes; it is left as it is.")
        whole = bytes(cast("bytes", kept))
        packed = whole[_CHECKSUM:]
        if zlib.crc32(packed).to_bytes(_CHECKSUM) != whole[:_CHECKSUM]:
            raise StoreCorrupt("A checkpoint is damaged: its checksum is of something else; it is left as it is.")
        try:
            return self._restored(ormsgpack.unpackb(packed, ext_hook=_extension), DEEPEST)
        except StoreCorrupt:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a damaged row makes somebody's record raise
            reason = type(error).__name__
        raise StoreCorrupt(f"A checkpoint holds something that cannot be read ({reason}); it is left as it is.")

    def _reduced(self, value: Any, room: int) -> Any:
        """Return a value in the terms of msgpack."""
        kind = _class(value)
        if kind in _NATIVE:
            return value
        if kind is int:
            return value if _LEAST <= value <= _MOST else [_INT.extension, value.to_bytes(value.bit_length() // 8 + 1, signed=True)]
        if room == 0:
            raise StateUnstorable(f"A value cannot be stored: more than {DEEPEST} containers are inside one another.")
        room -= 1
        if kind is list:
            return [item if type(item) in _NATIVE else self._reduced(item, room) for item in value]
        if kind is dict and all(type(key) is str for key in value):
            return {key: item if type(item) in _NATIVE else self._reduced(item, room) for key, item in value.items()}
        if kind in self._names:
            return self._reduced_record(value, room)
        plain = _BY_CLASS.get(kind)
        if plain is None:
            raise StateUnstorable(f"A value of class '{kind.__qualname__}' cannot be stored: it is not one of the state's classes.")
        parts = [self._reduced(part, room) for part in plain.apart(value)]
        if kind is set or kind is frozenset:
            parts.sort(key=ormsgpack.packb)  # equal sets are equal bytes, in every process
        return [plain.extension, *parts]

    def _reduced_record(self, value: Any, room: int) -> Any:
        name = self._names[type(value)]
        if isinstance(value, enum.Enum):
            return [_ENUM.extension, name, value.value if isinstance(value, enum.Flag) else value.name]
        fields, given = self._records[name].taken(value)
        reduced = {field: self._reduced(part, room) for field, part in fields.items()}
        return [_RECORD.extension, name, reduced, *([sorted(given)] if given is not None else ())]

    def _restored(self, value: Any, room: int) -> Any:
        """Return the value that something in the terms of msgpack stands for."""
        kind = _class(value)
        if kind is not list and kind is not dict:
            if kind is _Kind:
                raise StoreCorrupt("A checkpoint names a kind where no value begins; it is left as it is.")
            return value
        made = value[0] if kind is list and value and type(value[0]) is _Kind else None
        if made is _INT:
            return _int(*value[1:])
        if room == 0:
            raise StoreCorrupt(f"A checkpoint holds more than {DEEPEST} containers inside one another; it is left as it is.")
        room -= 1
        if kind is dict:
            return {key: item if type(item) in _NATIVE else self._restored(item, room) for key, item in value.items()}
        if made is None:
            return [item if type(item) in _NATIVE else self._restored(item, room) for item in value]
        if made is _RECORD:
            return self._restored_record(room, *value[1:])
        if made is _ENUM:
            return self._restored_member(*value[1:])
        return made.together([self._restored(part, room) for part in value[1:]])

    def _restored_record(self, room: int, name: str, fields: dict[str, Any], given: list[str] | None = None) -> Any:
        record = self._records.get(name)
        if record is None:
            raise StoreCorrupt("A checkpoint holds a record of a class that is not one of the state's; it is left as it is.")
        made = record.made({field: self._restored(part, room) for field, part in fields.items()})
        if isinstance(made, ValidationError):
            raise StoreCorrupt(f"A checkpoint holds a '{name}' that does not fit its class: {error_summary(made)}; it is left as it is.")
        if given is not None:
            made.model_fields_set.intersection_update(given)
        return made

    def _restored_member(self, name: str, member: Any) -> Any:
        kind = self._enums.get(name)
        if kind is None:
            raise StoreCorrupt("A checkpoint holds a member of a class that is not one of the state's; it is left as it is.")
        return kind(_exactly(int, member)) if issubclass(kind, enum.Flag) else kind.__members__[_exactly(str, member)]


class _Record:
    """How the records of one class are taken apart, and made anew by validation."""

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind

    def taken(self, value: Any) -> tuple[dict[str, Any], set[str] | None]:
        """Return the fields of a record and, of a pydantic model, those that were given; they are known to make it anew."""
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
        made = self.made(fields)
        if isinstance(made, ValidationError):
            raise StateUnstorable(f"A '{self._kind.__qualname__}' cannot be stored: it does not fit its own class: {error_summary(made)}.")
        if any(getattr(made, name) != getattr(cast("Any", value), name) for name in derived):
            raise StateUnstorable(f"A '{self._kind.__qualname__}' cannot be stored: it holds something that is not in its fields.")
        return fields, given

    def made(self, fields: dict[str, Any]) -> Any:
        """Make a record of these fields, or return what is wrong with them."""
        return try_validate(self._validate, fields["root"] if issubclass(self._kind, RootModel) else fields)

    @functools.cached_property
    def _validate(self) -> Callable[[Any], Any]:
        return exact_validator(self._kind)


def _has_fields(kind: type[Any]) -> bool:
    return dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel) or is_named_tuple(kind)


def _told(error: BaseException) -> str:
    """Say what an exception was. Half of a surrogate pair in it is written out: the error is to be kept in any case."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - somebody's exception
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


def _int(value: bytes) -> int:
    return int.from_bytes(_exactly(bytes, value), signed=True)


def _ints(parts: list[Any], count: int) -> list[int]:
    """Take exactly so many integers: the constructors of times take bytes, too."""
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
    """Describe a time zone: nothing, its key, or an offset in microseconds with the name that it may have been given."""
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
        if parts[0] not in _zone_keys():  # before it is looked for among the files of the system
            raise ValueError(parts)
        return zoneinfo.ZoneInfo(parts[0])
    offset, name = parts
    made = dt.timedelta(microseconds=_exactly(int, offset))
    return dt.timezone(made) if name is None else dt.timezone(made, _exactly(str, name))


@functools.cache
def _zone_keys() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


_MICROSECOND = dt.timedelta(microseconds=1)


def _datetime_parts(value: dt.datetime) -> list[Any]:
    day = [value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond]
    return [*day, value.fold, *_zone_parts(value.tzinfo)]


def _datetime(parts: list[Any]) -> dt.datetime:
    *moment, fold = _ints(parts[:8], 8)
    return dt.datetime(*moment, tzinfo=_zone(parts[8:]), fold=fold)


def _time_parts(value: dt.time) -> list[Any]:
    return [value.hour, value.minute, value.second, value.microsecond, value.fold, *_zone_parts(value.tzinfo)]


def _time(parts: list[Any]) -> dt.time:
    *moment, fold = _ints(parts[:5], 5)
    return dt.time(*moment, tzinfo=_zone(parts[5:]), fold=fold)


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
    tuple: _Kind(b"tuple", apart=tuple, together=tuple),
    set: _Kind(b"set", apart=list, together=lambda parts: _unique(set(parts), parts)),
    frozenset: _Kind(b"frozenset", apart=list, together=lambda parts: _unique(frozenset(parts), parts)),
    dict: _Kind(b"dict", apart=lambda value: (part for item in value.items() for part in item), together=_dict),
    decimal.Decimal: _Kind(
        b"decimal", apart=lambda value: [str(value)], together=lambda parts: decimal.Decimal(_exactly(str, _one(parts)))
    ),
    uuid.UUID: _Kind(b"uuid", apart=lambda value: [value.bytes], together=lambda parts: uuid.UUID(bytes=_exactly(bytes, _one(parts)))),
    dt.datetime: _Kind(b"datetime", apart=_datetime_parts, together=_datetime),
    dt.date: _Kind(b"date", apart=lambda day: [day.year, day.month, day.day], together=lambda parts: dt.date(*_ints(parts, 3))),
    dt.time: _Kind(b"time", apart=_time_parts, together=_time),
    dt.timedelta: _Kind(
        b"timedelta",
        apart=lambda span: [span.days, span.seconds, span.microseconds],
        together=lambda parts: dt.timedelta(*_ints(parts, 3)),
    ),
    Interrupt: _Kind(b"interrupt", apart=lambda value: [value.value, value.id, value.response_schema], together=_interrupt),
    Send: _Kind(b"send", apart=_send_parts, together=_send),
    Overwrite: _Kind(b"overwrite", apart=lambda value: [value.value], together=lambda parts: Overwrite(_one(parts))),
    Shown: _Kind(b"shown", apart=lambda value: [value.records], together=_one),  # read again it is the records, which every channel takes
    DeltaSnapshot: _Kind(b"snapshot", apart=lambda value: [value.value], together=lambda parts: DeltaSnapshot(_one(parts))),
}
_BY_NAME = {kind.name: kind for kind in (_INT, _ENUM, _RECORD, *_BY_CLASS.values())}
