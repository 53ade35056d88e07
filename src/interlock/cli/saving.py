"""Saves to a file: what an agent exports of a result, such as a table as CSV or a chart as SVG, or a conversation as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from interlock.agent import Agent
from interlock.cli.screen import print_error, safe
from interlock.runtime.turn import TurnResult

__all__ = ["save_conversation", "save_result"]


def save_result(path: Path, agent: Agent, result: TurnResult) -> bool:
    """Write each export of a result to a new file. Return whether there was one and all were written."""
    kind = path.suffix.lower()
    if kind not in agent.exports:
        known = " or ".join(f"FILE{ending}" for ending in agent.exports)
        print_error(f"'{safe(path.name)}' cannot be saved: {f'use {known}' if known else f'{agent.name} has nothing to save'}.")
        return False
    exports = agent.exports[kind](result.state)
    if not exports:
        print_error(f"There is nothing in this answer to save as '{kind}'.")
    for number, export in enumerate(exports, 1):
        file = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        if not _write(file, export.text, export.what):
            return False
    return bool(exports)


def save_conversation(path: Path, spoken: Sequence[tuple[str, str]]) -> bool:
    """Write a conversation to a new file, as Markdown. `spoken` has the speaker and the text of each message."""
    return _write(path, "\n".join(f"**{speaker}**\n\n{text}\n" for speaker, text in spoken), f"{len(spoken)} messages")


def _write(file: Path, text: str, what: str) -> bool:
    try:
        with file.open("x", encoding="utf-8", newline="") as out:
            out.write(text)
    except OSError as error:
        print_error(f"'{safe(file.name)}' cannot be written: {error.strerror}. Name a new file in a folder that you may write to.")
        return False
    print_error(f"Saved {what} to '{safe(file.name)}'.")
    return True
