"""The capabilities of the two sides of the gateway. The sides have none in common."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

from interlock.capabilities import Capability
from interlock.contract import Secret, Trusted

__all__ = ["AdminWorker", "Classifier", "CustomerSide", "DocsWorker", "Route", "Vault"]

Route = Literal["respond_admin", "route_bridge"]


class Classifier(Capability, Protocol):
    """Decides whose business an admin's text is. A model may say no to the customer side, never yes on its own."""

    async def classify(self, text: str) -> Route:
        """Return `route_bridge` only for text that has one of the keywords."""
        ...


class Vault(Capability, Protocol):
    """Returns secrets by name."""

    async def reference(self) -> Annotated[str, Trusted]:
        """Return the name of the admin's secret, or "" if none is configured."""
        ...

    async def fetch(self, reference: str) -> Annotated[str, Secret]:
        """Return the secret of this name."""
        ...


class AdminWorker(Capability, Protocol):
    """Works in the admin's files."""

    async def work(self, task: str, secret: Annotated[str, Secret]) -> str:
        """Do what is asked and say what came of it.

        The worker's model sees only a placeholder; its tools replace the placeholder by the secret.
        """
        ...


class DocsWorker(Capability, Protocol):
    """Works in the customers' documents."""

    async def work(self, task: str) -> str:
        """Do what is asked and say what came of it."""
        ...


class CustomerSide(Capability, Protocol):
    """The user graph, as the admin graph may use it: one text in, one text out."""

    async def answer(self, bridge_input: str) -> str:
        """Answer what came over the bridge."""
        ...
