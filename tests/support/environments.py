"""Environments with a part of what the tests have: Interlock as a wheel, and exactly what one of its extras names."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

__all__ = ["Environment", "build_wheel", "make_environment"]

ROOT = Path(__file__).resolve().parents[2]


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    made = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


class Environment:
    """A Python that sees the folder `site` and nothing else that is installed."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self.size = size
        """How many bytes the files of all packages have."""

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the folder of the environment."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH") if name in os.environ}
        data = {"INTERLOCK_DATA_DIR": str(self._folder / "data"), "HOME": str(self._folder)}
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", _START, str(self._folder / "site"), *arguments],
            cwd=self._folder,
            env={**kept, **data, **variables},
            stdin=subprocess.DEVNULL,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def interlock(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the command line."""
        return self.run("-m", *arguments, **variables)


# -S leaves out the packages of the tests; the folder takes their place, also for child processes that ask for it.
_START = """
import runpy, site, sys
folder, *arguments = sys.argv[1:]
site.addsitedir(folder)
sys.argv = ["interlock", *arguments[1:]]
if arguments[0] == "-m":
    from interlock.cli import main
    main()
else:
    exec(compile(open(arguments[0]).read(), arguments[0], "exec"), {"__name__": "__main__"})
"""


def make_environment(folder: Path, wheel: Path, extras: set[str]) -> Environment:
    """Make an environment with the wheel, what it needs, and what some of its extras name."""
    site = folder / "site"
    site.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    (info,) = site.glob("interlock-*.dist-info")
    needed = metadata.Distribution.at(info).requires or []
    size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
    for name in sorted(_closure(needed, extras)):
        size += _link(metadata.distribution(name), site)
    return Environment(folder, size)


def _closure(needed: list[str], extras: set[str]) -> set[str]:
    """Follow requirements, those of extras too, to every package that would be installed."""
    found: set[str] = set()
    waiting = [(line, extras) for line in needed]
    own = needed
    while waiting:
        line, given = waiting.pop()
        requirement = Requirement(line)
        if requirement.marker is not None and not any(requirement.marker.evaluate({"extra": one}) for one in given | {""}):
            continue
        if requirement.name == "interlock":
            waiting += [(inner, requirement.extras) for inner in own if "extra ==" in inner]
            continue
        key = f"{requirement.name.lower()}[{','.join(sorted(requirement.extras))}]"
        if key in found:
            continue
        found.add(key)
        waiting += [(inner, requirement.extras) for inner in metadata.distribution(requirement.name).requires or ()]
    return {key.partition("[")[0] for key in found}


def _link(distribution: metadata.Distribution, site: Path) -> int:
    """Put a package into the folder by links, and return its size."""
    files = [file for file in distribution.files or () if ".." not in file.parts and "__pycache__" not in file.parts]
    for top in {file.parts[0] for file in files}:
        place = site / top
        source = Path(str(distribution.locate_file(top)))
        if not place.exists():
            place.symlink_to(source)
        elif source.is_dir() and not place.samefile(source):
            # A namespace package, which several distributions have a part of.
            _merge(place, source, [file.parts[1:] for file in files if file.parts[0] == top])
    return sum(path.stat().st_size for file in files if (path := Path(str(distribution.locate_file(file)))).is_file())


def _merge(place: Path, source: Path, parts: list[tuple[str, ...]]) -> None:
    for name in {part[0] for part in parts if part}:
        own, other = place / name, source / name
        if not own.exists():
            own.symlink_to(other)
        elif other.is_dir() and not own.samefile(other):
            _merge(own, other, [part[1:] for part in parts if part and part[0] == name])
