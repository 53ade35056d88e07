"""The rows of scaffold: they are the architecture."""

from interlock import END, Graph, node

from .nodes import choose_way, draft_answer, give_answer, refuse
from .state import Answerable, Drafted, Refused, Replied, State

graph = Graph(
    "scaffold",
    state=State,
    entry=draft_answer,
    takes=("question",),
    gives="reply",
    max_steps=3,
    nodes=[
        node(draft_answer, goes={Drafted: choose_way, Refused: refuse}),
        node(choose_way, goes={Answerable: give_answer, Refused: refuse}),
        node(give_answer, goes={Replied: END}),
        node(refuse, goes={Replied: END}),
    ],
)
