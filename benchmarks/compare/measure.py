"""Measure sam on Interlock and on other libraries, each in a process of its own, in turns; and see what each of them notices.

Libraries that Interlock does not need have environments of their own below build/compare, made once from a hashed requirements file.
Run as a script it also writes figures.json beside it, from which the README's tables are made.
"""

from __future__ import annotations

import ast
import contextlib
import datetime as dt
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import venv
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENTS = ROOT / "build" / "compare"
FIGURES = HERE / "figures.json"
ROUNDS, FEW, CROWD = 25, 3, 1000


@dataclass(frozen=True)
class Subject:
    """Something that is measured: its names, what its users import, its distribution, whose mistakes it makes, its environment."""

    name: str
    title: str
    imports: str
    distribution: str
    mistakes: str
    environment: str | None = None


SUBJECTS = (
    Subject("direct", "Interlock, direct", "from interlock import END, Graph, Interlock, Outcome, node", "interlock", "interlock"),
    Subject(
        "langgraph",
        "Interlock, langgraph",
        "from interlock import END, Graph, Interlock, Outcome, node; import interlock.engine.langgraph",
        "interlock",
        "interlock",
    ),
    Subject("by_hand", "LangGraph by hand", "from langgraph.graph import END, START, StateGraph", "langgraph", "langgraph"),
    Subject(
        "pydantic_graph",
        "pydantic-graph",
        "from pydantic_graph import BaseNode, End, GraphBuilder, GraphRunContext",
        "pydantic-graph",
        "pydantic_graph",
        "pydantic-graph",
    ),
    Subject("burr", "burr", "from burr.core import ApplicationBuilder, GraphBuilder, State, action, when", "burr", "burr", "burr"),
)
BASE = "by_hand"
"""The subject that all others are compared with."""


class Skipped(Exception):
    """A library cannot be measured here, for this reason."""


def environment(name: str) -> Path:
    """Make the environment of a library, if it is not there yet, and return its interpreter."""
    wanted = HERE / f"{name}.txt"
    folder = ENVIRONMENTS / name
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()
    ready = folder / ".ready"
    if ready.is_file() and ready.read_text(encoding="utf-8") == digest:
        return python
    print(f"Setting up {folder.relative_to(ROOT)} (once)", file=sys.stderr)
    venv.create(folder, clear=True, with_pip=True)
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1", "--no-deps"]
    made = subprocess.run([*command, "--require-hashes", "-r", wanted], check=False, capture_output=True, text=True, cwd=ROOT)  # noqa: S603 - our own
    if made.returncode:
        lines = [line for line in made.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
        raise Skipped(f"it cannot be installed here: {lines[-1]}")
    ready.write_text(digest, encoding="utf-8")
    return python


def surroundings() -> dict[str, str]:
    """Leave out what could change what is measured, and let every environment find sam."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK_", "PYTHON", "LANG"))}
    return kept | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "LANGSMITH_TRACING": "false"}


class Worker:
    """A library's process, that answers one request after another."""

    def __init__(self, subject: Subject, python: Path) -> None:
        command = [python, "-m", "benchmarks.compare.worker", subject.name, subject.mistakes]
        self.subject = subject
        self.python = python
        self._process = subprocess.Popen(  # noqa: S603 - our own
            command, cwd=ROOT, env=surroundings(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.count = int(self._hear()["count"])

    def ask(self, *request: object) -> dict[str, Any]:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._process.stdin.write(json.dumps(request[0] if len(request) == 1 else request) + "\n")
        self._process.stdin.flush()
        return self._hear()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        line = self._process.stdout.readline()
        if not line:
            _, complaint = self._process.communicate()
            raise Skipped(f"it does not run here: {(complaint.strip().splitlines() or ['it ended'])[-1]}")
        return json.loads(line)


@contextlib.contextmanager
def workers() -> Generator[tuple[list[Worker], dict[str, str]]]:
    """Start a process for each subject that can be measured here, and name those that cannot."""
    started: list[Worker] = []
    skipped: dict[str, str] = {}
    try:
        for subject in SUBJECTS:
            try:
                python = environment(subject.environment) if subject.environment else Path(sys.executable)
                started.append(Worker(subject, python))
            except Skipped as reason:
                skipped[subject.title] = str(reason)
        yield started, skipped
    finally:
        for worker in started:
            worker.close()


def import_times(worker: Worker) -> dict[str, float]:
    """Import a library in a fresh process; return the seconds and the CPU seconds that it took."""
    code = (
        f"import time; wall, cpu = time.perf_counter(), time.process_time(); {worker.subject.imports}; "
        "print(time.perf_counter() - wall, time.process_time() - cpu)"
    )
    ran = subprocess.run([worker.python, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT, env=surroundings())  # noqa: S603 - our own
    wall, cpu = map(float, ran.stdout.split())
    return {"wall": wall, "cpu": cpu}


def version_of(worker: Worker) -> str:
    code = f"import importlib.metadata; print(importlib.metadata.version({worker.subject.distribution!r}))"
    return subprocess.check_output([worker.python, "-c", code], text=True, cwd=ROOT).strip()  # noqa: S603 - our own


def measure() -> dict[str, Any]:
    """Measure each subject once in every round, so that a slow moment affects all of them."""
    with workers() as (running, skipped):
        turns: dict[str, list[dict[str, float]]] = {worker.subject.name: [] for worker in running}
        crowds: dict[str, list[dict[str, float]]] = {worker.subject.name: [] for worker in running}
        imports: dict[str, list[dict[str, float]]] = {worker.subject.name: [] for worker in running}
        for _ in range(ROUNDS):
            for worker in running:
                turns[worker.subject.name].append(worker.ask("turns"))
        for worker in running:
            worker.ask("at once", 100)
        for _ in range(FEW):
            for worker in running:
                crowds[worker.subject.name].append(worker.ask("at once", CROWD))
        for number in range(FEW + 1):
            for worker in running:
                found = import_times(worker)
                if number:  # the first may have to compile
                    imports[worker.subject.name].append(found)
        measured = [
            {
                "name": worker.subject.title,
                "version": version_of(worker),
                "turn_us": round(middle(turns[worker.subject.name], "wall") * 1e6, 1),
                "turn_cpu_us": round(middle(turns[worker.subject.name], "cpu") * 1e6, 1),
                "turn_ratio": compared(turns, worker.subject.name, "wall"),
                "turn_cpu_ratio": compared(turns, worker.subject.name, "cpu"),
                "at_once_per_s": round(middle(crowds[worker.subject.name], "rate")),
                "at_once_ratio": compared(crowds, worker.subject.name, "rate"),
                "at_once_cpu_us": round(middle(crowds[worker.subject.name], "cpu") * 1e6, 1),
                "import_ms": round(middle(imports[worker.subject.name], "wall") * 1e3, 1),
                "import_cpu_ms": round(middle(imports[worker.subject.name], "cpu") * 1e3, 1),
                "import_ratio": compared(imports, worker.subject.name, "wall"),
            }
            for worker in running
        ]
        mistakes = noticed(running)
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "rounds": ROUNDS,
        "few_rounds": FEW,
        "at_once": CROWD,
        "measured": measured,
        "skipped": skipped,
        "mistakes": mistakes,
    }


def middle(found: list[dict[str, float]], what: str) -> float:
    return statistics.median(one[what] for one in found)


def compared(found: dict[str, list[dict[str, float]]], name: str, what: str) -> float:
    """Compare with the base in the same rounds."""
    return round(statistics.median(one[what] / base[what] for one, base in zip(found[name], found[BASE], strict=True)), 3)


def noticed(running: list[Worker]) -> dict[str, dict[str, dict[str, str]]]:
    """Have every library's mistakes made once, and its type checker look at them: what each notices, and when."""
    asked = list({worker.subject.mistakes: worker for worker in running}.values())
    with ThreadPoolExecutor() as beside:  # nothing is timed any more
        all_checked = beside.map(type_checked, asked)
        all_judged = [worker.ask("mistakes") for worker in asked]
    found: dict[str, dict[str, dict[str, str]]] = {}
    for worker, judged, checked in zip(asked, all_judged, all_checked, strict=True):
        if judged["no_mistake"]["caught"] != "no":
            raise RuntimeError(f"{worker.subject.title} does not run without a mistake: {judged['no_mistake']['said']}")
        if not checked < judged.keys() or "no_mistake" in checked:
            raise RuntimeError(f"{worker.subject.title}: the type checker rejects the correct program.")
        title = worker.subject.title.partition(",")[0].removesuffix(" by hand")
        found[title] = {
            name: {**one, "type_checker": "yes" if name in checked else "no"} for name, one in judged.items() if name != "no_mistake"
        }
    return found


def type_checked(worker: Worker) -> set[str]:
    """Run the type checker over a library's mistakes, in its environment; return the mistakes that it sees."""
    file = HERE / f"mistakes_{worker.subject.mistakes}.py"
    folder = ENVIRONMENTS / "checked" / worker.subject.mistakes
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "pyrightconfig.json"
    settings = {
        "include": [str(file)],
        "typeCheckingMode": "standard",
        "enableTypeIgnoreComments": False,
        "extraPaths": [str(ROOT / "src")],
    }
    config.write_text(json.dumps(settings), encoding="utf-8")
    command = [Path(sys.executable).with_name("basedpyright"), "--outputjson", "--pythonpath", worker.python, "-p", config]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)  # noqa: S603 - our own
    lines = [one["range"]["start"]["line"] + 1 for one in json.loads(ran.stdout)["generalDiagnostics"] if one["severity"] == "error"]
    return {mistake_at(file, line) for line in lines}


def mistake_at(file: Path, line: int) -> str:
    """Find the mistake to which a line belongs: the function around it, or the next one below it."""
    functions = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
    return next((node.name for node in functions if line <= (node.end_lineno or 0)), "no_mistake")


def main() -> None:
    """Measure, and keep the figures for the README."""
    found = measure()
    FIGURES.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{FIGURES.relative_to(ROOT)}: written")
    for name, reason in found["skipped"].items():
        print(f"{name} is left out: {reason}")


if __name__ == "__main__":
    main()
