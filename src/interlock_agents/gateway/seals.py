"""Seals on what crosses the bridge: a node can show that another node wrote a text, and no caller can forge it.

A seal is a keyed hash of the text and of the node that wrote it. Every process creates its own key, which is in no state
and no file, so a seal is valid only in the process that runs the turn.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Literal

from interlock.contract import guard

__all__ = ["Sealer", "is_sealed", "seal"]

Sealer = Literal["supervisor", "bridge"]

_KEY = secrets.token_bytes(32)


def seal(text: str, by: Sealer) -> str:
    """Return the seal of a node on a text."""
    return hmac.new(_KEY, f"{by}\0{text}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


@guard
def is_sealed(given: str, text: str, by: Sealer) -> bool:
    """Return whether `given` is this node's seal on exactly this text."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), seal(text, by).encode())
