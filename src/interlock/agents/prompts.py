"""How agents put something to a model: prose from files as the system's part, data beside it as the user's.

What a user, a tool or a document says is never part of a prompt's text, so nothing in it is taken for a template.
"""

from __future__ import annotations

from pathlib import Path

from interlock.capabilities import Message

__all__ = ["Prompts"]


class Prompts:
    """The prompts of one agent: Markdown files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, str] = {}
        self._said: dict[tuple[str, ...], Message] = {}

    def asked(self, payload: str, *names: str) -> tuple[Message, ...]:
        """Make what is put to a model: these prompts from the system, the payload from the user."""
        said = self._said.get(names)
        if said is None:  # it is the same every time, and cannot be changed
            said = self._said[names] = Message(role="system", text="\n\n".join(map(self.text, names)))
        return said, Message(role="user", text=payload)

    def text(self, name: str) -> str:
        """Return a prompt."""
        if name not in self._read:
            self._read[name] = (self._folder / f"{name}.md").read_text(encoding="utf-8").strip()
        return self._read[name]
