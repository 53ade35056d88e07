"""The root folder of a scope, held open by a descriptor."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from interlock.errors import ToolUnavailable
from interlock_agents.gateway.files.resolvers import ENTER

__all__ = ["Root"]


class Root:
    """Holds a folder by a descriptor, so that it stays the same one whatever happens to its path.

    The number of a closed descriptor is reused for any other file, so uses are counted and it is closed after the last one.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._descriptor = os.open(folder, ENTER)
        except OSError as error:
            raise ToolUnavailable(f"The folder of the scope cannot be opened: {os.strerror(error.errno or errno.EIO)}.") from None
        self._lock = threading.Lock()
        self._lent = 0
        self._closed = False

    @contextmanager
    def lent(self) -> Generator[int]:
        """Yield the descriptor, which stays open meanwhile."""
        with self._lock:
            if self._closed:
                raise ToolUnavailable("The scope is closed.")
            self._lent += 1
        try:
            yield self._descriptor
        finally:
            with self._lock:
                self._lent -= 1
                self._close_if_free()

    def close(self) -> None:
        """Refuse further use, and close the descriptor when it is no longer in use."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._close_if_free()

    def _close_if_free(self) -> None:
        if self._closed and not self._lent and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
