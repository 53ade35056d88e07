"""The nodes of the gateway, in the order of the rows."""

from __future__ import annotations

from interlock.agents.gateway.paths import in_scope
from interlock.agents.gateway.proof import is_proof, prove
from interlock.agents.gateway.roles import AdminWorker, Classifier, CustomerSide, DocsWorker, Vault
from interlock.agents.gateway.state import AdminOrigin, Answered, Crossed, Forwarded, Responded, Returned
from interlock.errors import BridgeAccessError

__all__ = ["bridge", "customer", "customer_from_bridge", "supervisor"]


async def supervisor(admin_input: str, *, classifier: Classifier, worker: AdminWorker, vault: Vault) -> Answered | Forwarded:
    """Answer the admin, or send what is for the customer side on."""
    if not admin_input.strip():
        return Answered(supervisor_response="Empty admin input.", secret_key_ref="")
    if await classifier.classify(admin_input) == "route_bridge":
        return Forwarded(origin_proof=prove(admin_input))
    reference = await vault.reference()
    secret = await vault.fetch(reference) if reference else ""
    response = await worker.work(in_scope(admin_input, "admin"), secret)
    return Answered(supervisor_response=response, secret_key_ref=reference)


async def bridge(origin: AdminOrigin, origin_proof: str, admin_input: str) -> Crossed:
    """Let what the supervisor sends cross, and nothing else of what it knows."""
    if origin != "supervisor" or not is_proof(origin_proof, admin_input):
        raise BridgeAccessError("Only what the supervisor sends on crosses the bridge, as it was sent.")
    return Crossed(bridge_admin_input=admin_input)


async def customer_from_bridge(bridge_admin_input: str, *, side: CustomerSide) -> Returned:
    """Ask the customer side, as it would be asked by anybody."""
    return Returned(customer_response=await side.answer(bridge_admin_input))


async def customer(user_input: str, bridge_input: str, *, worker: DocsWorker) -> Responded:
    """Answer from the documents."""
    text = bridge_input or user_input
    if not text.strip():
        return Responded(response="Empty user input.")
    return Responded(response=await worker.work(in_scope(text, "docs")))
