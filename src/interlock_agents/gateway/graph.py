"""The gateway: an admin graph and a user graph, and a bridge from the one to the other."""

from __future__ import annotations

from interlock.capabilities import Model
from interlock.contract import END, Graph, node
from interlock.runtime.targets import Subgraph
from interlock_agents.gateway.nodes import bridge, customer, customer_from_bridge, supervisor
from interlock_agents.gateway.roles import AdminWorker, Classifier, CustomerSide, Vault
from interlock_agents.gateway.state import Answered, Crossed, Forwarded, GlobalState, Responded, Returned, UnsafeState

__all__ = ["SUBGRAPHS", "admin_graph", "user_graph"]

# fmt: off
admin_graph = Graph(
    "gateway.admin", state=GlobalState, entry=supervisor, max_steps=3, takes=("admin_input",), forbids=(Model,),
    nodes=[
        node(supervisor,           goes={Answered: END, Forwarded: bridge}),
        node(bridge,               goes={Crossed: customer_from_bridge}),
        node(customer_from_bridge, goes={Returned: END}),
    ],
)

user_graph = Graph(
    "gateway.user", state=UnsafeState, entry=customer, max_steps=1, takes=("user_input",), takes_from_parent=("bridge_input", "origin"),
    gives="response", forbids=(Model, AdminWorker, Classifier, CustomerSide, Vault),
    nodes=[
        node(customer, goes={Responded: END}),
    ],
)
# fmt: on

SUBGRAPHS = {CustomerSide: Subgraph(user_graph, origin="bridge")}
