"""Faults as SARIF, the format in which code scanning services show findings at their lines."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from interlock.verification.faults import RULES, Fault

__all__ = ["sarif"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(faults: Iterable[Fault], *, root: Path) -> dict[str, Any]:
    """Return the faults as a SARIF log. Files below `root` are named by their path in it."""
    rules = [{"id": code, "shortDescription": {"text": text}} for code, text in RULES.items()]
    results = [_result(fault, root) for fault in faults]
    driver = {"name": "interlock verify", "rules": rules}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(fault: Fault, root: Path) -> dict[str, Any]:
    place = f"{fault.graph}{f'.{fault.node}' if fault.node else ''}"
    result: dict[str, Any] = {
        "ruleId": fault.code,
        "level": "error",
        "message": {"text": str(fault)},
        "locations": [{"logicalLocations": [{"fullyQualifiedName": place}]}],
    }
    if fault.file is not None:
        file = Path(fault.file)
        uri = file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name
        location = {"artifactLocation": {"uri": uri}, "region": {"startLine": max(1, fault.line or 1)}}
        result["locations"][0]["physicalLocation"] = location
    return result
