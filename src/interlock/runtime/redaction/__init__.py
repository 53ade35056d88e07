"""Removal of secrets from everything that leaves a turn: events, log lines, spans, errors and results.

redactor.py     finds secrets in text and JSON data, also in text that arrives in chunks
encodings.py    how a secret is written inside other texts: JSON, a repr, base64, a URL
values.py       removes secrets from Python values, for the tracers of LangGraph
exceptions.py   removes secrets from exceptions and what caused them
"""

from interlock.runtime.redaction.redactor import REDACTED, Redactor, StreamRedactor

__all__ = ["REDACTED", "Redactor", "StreamRedactor"]
