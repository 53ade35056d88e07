"""What a turn tells besides its result: lines of the log, and spans."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

__all__ = ["chain", "listening"]


class _Keeping(logging.Handler):
    def __init__(self, kept: list[logging.LogRecord]) -> None:
        super().__init__()
        self._kept = kept

    def emit(self, record: logging.LogRecord) -> None:
        self._kept.append(record)


@contextmanager
def listening(records: list[logging.LogRecord], spans: SpanExporter) -> Generator[None]:
    """Listen to the log at its loudest and to OpenTelemetry."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    handler, logger = _Keeping(records), logging.getLogger("interlock")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel("DEBUG")
    logger.propagate = False
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trace, "get_tracer_provider", lambda: provider)
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Walk everything that an error drags along."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__cause__, one.__context__, *(one.exceptions if isinstance(one, BaseExceptionGroup) else ())]
