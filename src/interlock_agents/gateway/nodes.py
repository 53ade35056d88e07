"""The nodes of the gateway, in the order of the rows."""

from __future__ import annotations

from interlock_agents.gateway.errors import BridgeAccessError
from interlock_agents.gateway.paths import in_scope
from interlock_agents.gateway.roles import AdminWorker, Classifier, CustomerSide, DocsWorker, Vault
from interlock_agents.gateway.seals import is_sealed, seal
from interlock_agents.gateway.state import AdminOrigin, Answered, Crossed, Forwarded, Responded, Returned
from interlock_agents.guards import is_blank

__all__ = ["bridge", "customer", "customer_from_bridge", "supervisor"]


async def supervisor(admin_input: str, *, classifier: Classifier, worker: AdminWorker, vault: Vault) -> Answered | Forwarded:
    """Answer the admin, or send what is for the customer side on."""
    if is_blank(admin_input):
        return Answered(supervisor_response="Empty admin input.", secret_key_ref="", secret_context="")
    if await classifier.classify(admin_input) == "route_bridge":
        return Forwarded(origin_seal=seal(admin_input, "supervisor"))
    reference = await vault.reference()
    secret = await vault.fetch(reference) if reference else ""
    response = await worker.work(in_scope(admin_input, "admin"), secret)
    context = f"secret '{reference}', for the files of the admin worker" if reference else ""
    return Answered(supervisor_response=response, secret_key_ref=reference, secret_context=context)


async def bridge(origin: AdminOrigin, origin_seal: str, admin_input: str) -> Crossed:
    """Forward the admin's input that the supervisor sent on, and nothing else of the admin side."""
    if origin != "supervisor" or not is_sealed(origin_seal, admin_input, "supervisor"):
        raise BridgeAccessError("Only what the supervisor sends on crosses the bridge, as it was sent.")
    return Crossed(bridge_admin_input=admin_input, bridge_seal=seal(admin_input, "bridge"))


async def customer_from_bridge(bridge_admin_input: str, bridge_seal: str, *, side: CustomerSide) -> Returned:
    """Ask the customer side what came over the bridge."""
    if not is_sealed(bridge_seal, bridge_admin_input, "bridge"):
        raise BridgeAccessError("Only what came over the bridge reaches the customer side from here, as it came.")
    return Returned(customer_response=await side.answer(bridge_admin_input))


async def customer(user_input: str, bridge_input: str, *, worker: DocsWorker) -> Responded:
    """Answer from the documents."""
    text = bridge_input or user_input
    if not text.strip():
        return Responded(response="Empty user input.")
    return Responded(response=await worker.work(in_scope(text, "docs")))
