"""What a turn of sam costs on Interlock and on other libraries, and which mistakes each of them notices."""

from __future__ import annotations

from typing import Any

from compare.measure import measure
from figures import Figure
from rich.table import Table

__all__ = ["compared", "measure_comparison", "noticed"]


def measure_comparison() -> dict[str, Any]:
    """Measure each subject that can be measured here."""
    return measure()


def compared(found: dict[str, Any]) -> list[Figure]:
    """Write what was measured as figures."""
    units = {
        "turn_us": ("a turn", "us"),
        "turn_cpu_us": ("CPU of a turn", "us"),
        "turn_ratio": ("a turn / LangGraph by hand", "x"),
        "turn_cpu_ratio": ("CPU of a turn / LangGraph by hand", "x"),
        "at_once_per_s": (f"{found['at_once']:,} at once, 50 ms model", "turns/s"),
        "at_once_ratio": (f"{found['at_once']:,} at once / LangGraph by hand", "x"),
        "import_ms": ("import", "ms"),
        "import_cpu_ms": ("CPU of the import", "ms"),
    }
    return [Figure(f"{one['name']}: {words}", one[key], unit) for key, (words, unit) in units.items() for one in found["measured"]]


def noticed(found: dict[str, Any]) -> Table:
    """Write who notices which mistake, and when."""
    mistakes: dict[str, dict[str, dict[str, str]]] = found["mistakes"]
    table = Table("mistake", *mistakes, title="which mistakes are noticed, and when")
    for name in next(iter(mistakes.values())):
        judged = [library[name] for library in mistakes.values()]
        table.add_row(name, *(one["caught"] + (", type checker" if one["type_checker"] == "yes" else "") for one in judged))
    return table
