"""Optional dependencies: the extras of `pip install 'interlock[EXTRA]'`, and whether they are installed."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import re
import sys

from interlock.errors import ExtraMissing

__all__ = ["is_installed", "missing_extra", "missing_packages", "require"]

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[(?P<extras>[\w,-]+)\])?[^;]*(?:;(?P<marker>.*))?")


def require(module: str, *, extra: str, what: str) -> None:
    """Raise ExtraMissing if a module of an extra cannot be imported. `what` is the subject of the message."""
    if not is_installed(module):
        raise ExtraMissing(f"{what} is not installed. Run: pip install 'interlock[{extra}]'")


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def missing_extra(error: ModuleNotFoundError) -> ExtraMissing:
    """Return the error for a module that cannot be imported, with the smallest extra of Interlock that has its package.

    Raises the given error again where no extra has it.
    """
    package = (error.name or "").partition(".")[0].replace("_", "-")
    extras = importlib.metadata.metadata("interlock").get_all("Provides-Extra") or []
    having = [(len(found), extra) for extra in extras if package in (found := missing_packages("interlock", extra))]
    if not having:
        raise error
    return ExtraMissing(f"Package '{package}' is not installed, and this needs it. Run: pip install 'interlock[{min(having)[1]}]'")


@functools.cache
def missing_packages(distribution: str, extra: str) -> tuple[str, ...]:
    """Return the packages of an extra that are not installed, by the metadata of the distribution."""
    missing: list[str] = []
    for line in importlib.metadata.requires(distribution) or ():
        found = _REQUIREMENT.match(line)
        if found is None or not _applies(found["marker"] or "", extra):
            continue
        if found["name"] == distribution:
            missing += [one for inner in (found["extras"] or "").split(",") for one in missing_packages(distribution, inner)]
        elif not _has(found["name"]):
            missing.append(found["name"])
    return tuple(dict.fromkeys(missing))


def _applies(marker: str, extra: str) -> bool:
    """Return whether a requirement belongs to an extra on this platform."""
    if not re.search(rf"extra == ['\"]{re.escape(extra)}['\"]", marker):
        return False
    elsewhere = re.search(r"sys_platform != ['\"](\w+)['\"]", marker)
    return elsewhere is None or elsewhere[1] != sys.platform


def _has(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
