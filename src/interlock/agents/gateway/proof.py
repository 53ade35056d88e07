"""The proof that the supervisor sends something on: a seal on the text, with a key that is in no state and no file.

The key is made anew in every process, so a proof is worth nothing outside the one in which its turn is taken.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

__all__ = ["is_proof", "prove"]

_KEY = secrets.token_bytes(32)


def prove(text: str) -> str:
    """Seal a text that the supervisor sends on."""
    return hmac.new(_KEY, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def is_proof(proof: str, text: str) -> bool:
    """Tell whether the supervisor has sealed this very text."""
    return hmac.compare_digest(proof.encode("utf-8", "surrogatepass"), prove(text).encode())
