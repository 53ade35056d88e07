"""Turns that wait for a person: the record of each in a file of its own, from which it goes on, in this process or another.

A turn is written down while it is taken. When it stops to wait, the file gets the name of one that waits; when it ends, it
goes. What a crash leaves behind is of no use to anybody and makes way for the session's next turn.
"""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

from interlock.errors import NothingWaits, StoreUnavailable, TurnWaiting

__all__ = ["WaitingTurns"]

_NUMBERS = itertools.count(1)


class WaitingTurns:
    """The turns that wait, one a session at most."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, agent: str, session: str) -> Path:
        """Return the file for a new turn. Raises TurnWaiting where the session's last turn still waits."""
        if self._waiting(agent, session).exists():
            raise _waits(session)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for left in self._folder.glob(f"{agent}-{session}.*.running"):
                if not _is_somebodys(left):
                    left.unlink(missing_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"The turn cannot be written down: {error.strerror}. Fix: set 'data_dir'.") from error
        return self._running(agent, session)

    def find(self, agent: str, session: str) -> Path:
        """Return the file of the turn that waits. Raises NothingWaits where none does."""
        path = self.path(agent, session)
        if path is None:
            raise NothingWaits(f"No turn of session '{session}' waits for an answer.")
        return path

    def path(self, agent: str, session: str) -> Path | None:
        """Return the file of the turn that waits, or None where none does."""
        path = self._waiting(agent, session)
        return path if path.exists() else None

    def drop(self, agent: str, session: str) -> None:
        """Give up the turn that waits: the session can take another one."""
        try:
            self._waiting(agent, session).unlink(missing_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"The turn cannot be given up: {error.strerror}. Fix: set 'data_dir'.") from error

    def is_own(self, path: Path) -> bool:
        """Tell whether a file is the one of a turn that waits, and not a record that somebody asked for."""
        return path.parent == self._folder

    def settle(self, path: Path, agent: str, session: str, *, waits: bool) -> None:
        """Keep the file of a turn that waits; let go of one that has ended. Raises TurnWaiting where another turn waits by now.

        A record that is kept elsewhere stays what and where it is.
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
                os.link(path, waiting)  # which never takes the place of one that is there
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


def _waits(session: str) -> TurnWaiting:
    return TurnWaiting(f"Session '{session}' waits for a person's answer: answer its question, or give the turn up by 'abort'.")


def _is_somebodys(path: Path) -> bool:
    """Tell whether the process is still there that writes a file."""
    try:
        os.kill(int(path.name.split(".")[-2].split("-")[0]), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError, OverflowError):
        return True
    return True
