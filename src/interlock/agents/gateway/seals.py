"""Seals on what crosses the bridge: a node can show that another node wrote a text, and no caller can forge it.

A seal is a keyed hash of the text and of the node that wrote it. The key is made anew in every process and is in no state
and no file, so a seal is worth nothing outside the process that runs the turn.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Literal

__all__ = ["Sealer", "is_sealed", "seal"]

Sealer = Literal["supervisor", "bridge"]

_KEY = secrets.token_bytes(32)


def seal(text: str, by: Sealer) -> str:
    """Seal a text that a node hands over."""
    return hmac.new(_KEY, f"{by}\0{text}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def is_sealed(given: str, text: str, by: Sealer) -> bool:
    """Tell whether this node has sealed this very text."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), seal(text, by).encode())
