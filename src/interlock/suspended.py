"""Suspended turns: each has its record in a file, from which any process can resume it.

A turn that may be suspended is recorded while it runs. When it is suspended, the file is renamed; when it ends, the file is
deleted. A file that a crashed process left behind is deleted by the session's next turn.
"""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

from interlock.errors import NothingWaits, StoreUnavailable, TurnWaiting

__all__ = ["SuspendedTurns"]

_NUMBERS = itertools.count(1)


class SuspendedTurns:
    """The suspended turns of an application, at most one for each session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, agent: str, session: str) -> Path:
        """Return the file for a new turn. Raises TurnWaiting where a turn of the session is suspended."""
        if self._waiting(agent, session).exists():
            raise _waits(session)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for left in self._folder.glob(f"{agent}-{session}.*.running"):
                if not _is_being_written(left):
                    left.unlink(missing_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"The record of the turn cannot be written: {error.strerror}. Fix: set 'data_dir'.") from error
        return self._running(agent, session)

    def find(self, agent: str, session: str) -> Path:
        """Return the file of the suspended turn. Raises NothingWaits where no turn is suspended."""
        path = self.path(agent, session)
        if path is None:
            raise NothingWaits(f"No turn of session '{session}' waits for an answer.")
        return path

    def path(self, agent: str, session: str) -> Path | None:
        """Return the file of the suspended turn, or None where no turn is suspended."""
        path = self._waiting(agent, session)
        return path if path.exists() else None

    def drop(self, agent: str, session: str) -> None:
        """Delete the suspended turn, so that the session can start another one."""
        try:
            self._waiting(agent, session).unlink(missing_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"The suspended turn cannot be deleted: {error.strerror}. Fix: set 'data_dir'.") from error

    def is_own(self, path: Path) -> bool:
        """Return whether a file is one of these, and not a record that the caller asked for."""
        return path.parent == self._folder

    def keep_or_delete(self, path: Path, agent: str, session: str, *, waits: bool) -> None:
        """Keep the file of a suspended turn; delete the file of one that ended. Raises TurnWaiting where another turn was suspended.

        A record that the caller asked for stays where it is.
        """
        waiting = self._waiting(agent, session)
        is_own = self.is_own(path)
        if (waits and path == waiting) or not (waits or is_own):
            return
        try:
            if not is_own:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                path = Path(shutil.copy(path, self._running(agent, session)))
            if waits:
                # A link never replaces an existing file.
                os.link(path, waiting)
            path.unlink(missing_ok=True)
        except FileExistsError as error:
            path.unlink(missing_ok=True)
            raise _waits(session) from error
        except OSError as error:
            raise StoreUnavailable(f"The turn cannot wait: {error.strerror}. Fix: set 'data_dir'.") from error

    def _running(self, agent: str, session: str) -> Path:
        return self._folder / f"{agent}-{session}.{os.getpid()}-{next(_NUMBERS)}.running"

    def _waiting(self, agent: str, session: str) -> Path:
        return self._folder / f"{agent}-{session}.waiting"

    def files(self) -> list[Path]:
        """Return the files of all suspended turns."""
        return sorted(self._folder.glob("*.waiting"))


def _waits(session: str) -> TurnWaiting:
    return TurnWaiting(f"Session '{session}' waits for a person's answer: answer its question, or give the turn up by 'abort'.")


def _is_being_written(path: Path) -> bool:
    """Return whether the process that writes a file is still running."""
    try:
        os.kill(int(path.name.split(".")[-2].split("-")[0]), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError, OverflowError):
        return True
    return True
