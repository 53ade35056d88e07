"""What may be in the histories of Temporal: ids."""

from __future__ import annotations

import re
from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from interlock.errors import Internal

__all__ = ["IdsOnly"]

_IDS = re.compile(rb'(null|[{}:,]|"([\x21\x23-\x5b\x5d-\x7e]|\\["\\]){0,300}")*')
"""JSON of strings of printable ASCII characters without spaces, and of mappings of such strings."""


class IdsOnly(PayloadCodec):
    """Refuses payloads that are not ids, so that what a turn says and does cannot get into a history by mistake."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Return the payloads. Raises Internal where one has more than ids in it."""
        if not all(_IDS.fullmatch(payload.data) for payload in payloads):
            raise Internal("A payload for Temporal has more than ids in it.")
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Return the payloads."""
        return list(payloads)
