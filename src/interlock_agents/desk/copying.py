"""Continues a session under another name: its document as it was when the forked turn had read it."""

from __future__ import annotations

import json

from interlock.agent import SessionCopy
from interlock.capabilities import SessionReader, SessionWriter

__all__ = ["copy_session"]

_READ = f"{SessionReader.__name__}.load"


async def copy_session(copy: SessionCopy) -> None:
    """Store the document for the other session. A turn that had not read it continues the one that is stored now."""
    document = copy.read[_READ] if _READ in copy.read else await copy.find(SessionReader).load(copy.session)
    if document is not None:
        renamed = json.dumps({**json.loads(document), "session_id": copy.to}, ensure_ascii=False)
        await copy.find(SessionWriter).save(copy.to, renamed, expected=0)
