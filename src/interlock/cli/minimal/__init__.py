"""minimal: greets the person that a message names. The smallest agent that runs."""

from dataclasses import dataclass
from typing import Annotated

from interlock import END, Agent, Graph, Outcome, Reply, Untrusted, node

__all__ = ["agent"]


@dataclass
class State:
    """The fields of a turn."""

    name: Annotated[str, Untrusted]
    greeting: Annotated[str, Untrusted]


class Greeted(Outcome):
    """There is a greeting."""

    greeting: str


async def greet(name: str) -> Greeted:
    """Write the greeting."""
    return Greeted(greeting=f"Hello, {name}!")


graph = Graph(
    "minimal",
    state=State,
    entry=greet,
    takes=("name",),
    gives="greeting",
    nodes=[node(greet, goes={Greeted: END})],
)

agent = Agent(
    name="minimal",
    summary="greets the person that a message names",
    graphs=(graph,),
    entries={None: graph},
    reply=lambda state: Reply(output=state["greeting"]),
)
