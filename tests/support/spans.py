"""The spans that a test causes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class _Counting(SimpleSpanProcessor):
    """Counts what has begun."""

    begun = 0

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.begun += 1
        super().on_start(span, parent_context)


class Spans:
    """All spans that were begun since it was made."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._processor = _Counting(self._exporter)
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(self._processor)

    @property
    def ended(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    @property
    def open(self) -> int:
        return self._processor.begun - len(self.ended)

    def parents(self) -> list[tuple[str, str | None]]:
        """Each span's name with the name of the one that it is inside, in the order in which they ended."""
        names = {span.context.span_id: span.name for span in self.ended if span.context}
        return [(span.name, names[span.parent.span_id] if span.parent else None) for span in self.ended]

    def text(self) -> str:
        """Everything that is in them."""
        return "\n".join(span.to_json() for span in self.ended)


@contextmanager
def spanned() -> Generator[Spans]:
    """Take the spans from here on; the context is as before when it ends."""
    made, before = Spans(), context.get_current()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "get_tracer_provider", lambda: made.provider)
        yield made
    assert context.get_current() == before
    made.provider.shutdown()
