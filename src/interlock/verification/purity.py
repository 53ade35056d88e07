"""What is known of Python and its library: what reaches outside, and what changes its arguments."""

from __future__ import annotations

import enum
import sys
import types
from datetime import date, datetime, timedelta

__all__ = [
    "AMBIENT_BUILTINS",
    "AMBIENT_METHODS",
    "AMBIENT_MODULES",
    "CHANGES",
    "CHANGING",
    "CONTAINERS",
    "FIXED_KINDS",
    "FIXED_MODULES",
    "NO_CHANGE",
    "PLAIN_MODULES",
    "READS",
    "SCALARS",
    "SCALAR_FUNCTIONS",
    "SCALAR_NAMES",
    "can_change",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


AMBIENT_MODULES = _words(
    "os time random secrets uuid socket subprocess threading sys io shutil tempfile http requests httpx gc inspect signal locale platform"
    " getpass glob multiprocessing select ssl contextvars ctypes importlib posix _thread _io _random _contextvars logging traceback"
    " warnings weakref queue _queue atexit resource pwd grp fcntl mmap sqlite3 shelve dbm urllib http ftplib smtplib"
    " linecache fileinput concurrent"
)
"""Modules whose functions depend on more than their arguments, or do something outside."""

AMBIENT_BUILTINS = _words("open input eval exec compile __import__ globals locals vars id hash print breakpoint setattr delattr super")
AMBIENT_METHODS = _words(
    "now today utcnow lexists isfile isdir islink ismount getmtime getsize expanduser expandvars abspath realpath samefile"
    " current_task all_tasks get_running_loop get_event_loop fromtimestamp read_text read_bytes"
    " write_text write_bytes exists is_file is_dir iterdir stat unlink mkdir cwd home"
)
"""Methods of dates, paths and event loops that depend on more than their arguments."""

_METHODS = frozenset(name for kind in (str, bytes, int, float, date, datetime, timedelta) for name in dir(kind) if not name.startswith("_"))

READS = _METHODS | _words(
    "get items keys values copy model_dump model_dump_json model_copy union intersection difference issubset issuperset isdisjoint"
)
"""Methods that change nothing, whatever they belong to."""

SCALARS = (_METHODS | {"model_dump_json"}) - {"split", "rsplit", "splitlines"}
"""Methods whose results are texts, numbers or dates."""

SCALAR_FUNCTIONS: frozenset[object] = frozenset({len, str, repr, int, float, bool, any, all, isinstance, issubclass, abs, round, ord, chr})
SCALAR_NAMES = _words("json.dumps re.sub re.escape pydantic_core._pydantic_core.to_json math.ceil math.floor math.isfinite")
"""Functions whose results are texts or numbers."""

CHANGES = _words(
    "append add extend insert update setdefault pop popitem remove discard clear sort reverse appendleft extendleft popleft rotate"
    " difference_update intersection_update symmetric_difference_update __setitem__ __delitem__ __iadd__ __ior__"
)
"""Methods that change the container they belong to, and nothing else."""

FIXED_MODULES = _words(
    "builtins re datetime decimal fractions pathlib zoneinfo types typing functools operator string enum abc uuid ipaddress"
)
"""Modules of Python whose objects nothing changes."""

FIXED_KINDS = (
    *(str, bytes, int, float, complex, bool, tuple, frozenset, range, slice, type, property, type(None), type(...), type(NotImplemented)),
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, types.MethodDescriptorType),
    *(types.WrapperDescriptorType, types.MethodWrapperType, types.GenericAlias, types.UnionType, types.MappingProxyType),
)
"""Types of Python itself whose objects nothing changes."""

PLAIN_MODULES = frozenset({"builtins", "datetime", "collections.abc", "re"})
"""Modules of types of which it is known which methods change them."""

CHANGING = frozenset({"heapq", "_heapq", "operator", "_operator"})
"""Modules whose functions change their arguments. All other library functions are assumed not to."""

CONTAINERS: frozenset[object] = frozenset({tuple, list, set, frozenset, sorted, reversed, iter, dict, enumerate, zip})
NO_CHANGE: frozenset[object] = frozenset(
    {
        len,
        str,
        repr,
        int,
        float,
        bool,
        bytes,
        any,
        all,
        sum,
        max,
        min,
        isinstance,
        issubclass,
        abs,
        round,
        map,
        filter,
        next,
        range,
        type,
        ord,
        chr,
    }
)


def can_change(value: object) -> bool:
    """Return whether an object of a module is one of Python's own that can be changed, such as a list, a queue or a counter."""
    kind = type(value)
    if kind.__module__ == "builtins":
        return not isinstance(value, FIXED_KINDS)
    if kind.__module__ in {"collections", "itertools"}:
        return True
    top = kind.__module__.partition(".")[0]
    return top in sys.stdlib_module_names and kind.__module__ not in FIXED_MODULES and not isinstance(value, enum.Enum | type)
