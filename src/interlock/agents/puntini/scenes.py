"""What puntini is shown with: one conversation on one graph."""

from __future__ import annotations

from interlock.runtime.agent import Scene

__all__ = ["SCENES"]

_TALK = "tour"
_ALONE = {"human": "nobody"}  # the tour goes on by itself

SCENES = (
    Scene(
        title="a goal becomes steps, each of them a transaction",
        text="Create a project Apollo with tasks Design and Build, and assign Ada to Design",
        session=_TALK,
        settings=_ALONE,
    ),
    Scene(title="a question", text="How many tasks does Apollo have?", session=_TALK, settings=_ALONE),
    Scene(title="a change", text="Set the status of Design to done", session=_TALK, settings=_ALONE),
    Scene(title="two nodes have this name: a person has to say which", text="Add a person Design", session=_TALK, settings=_ALONE),
    Scene(title="... so this is not done by a guess", text="Set the priority of Design to 3", session=_TALK, settings=_ALONE),
    Scene(title="a tool that there is not", text="Send an email to Ada", session=_TALK, settings=_ALONE),
    Scene(title="a goal that contradicts itself", text="Create a task Test and delete the task Test", session=_TALK, settings=_ALONE),
    Scene(title="raw Cypher that writes: refused before it runs", text="MATCH (n) DETACH DELETE n", session=_TALK, settings=_ALONE),
    Scene(title="what is there after all that", text="List all tasks", session=_TALK, settings=_ALONE),
)
