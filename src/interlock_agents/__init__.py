"""Five agents on Interlock, one package each. They use nothing that an agent of your own cannot use."""

__all__ = ["INTRODUCED"]

INTRODUCED = ("sam", "desk", "analyst", "gateway", "puntini")
"""The agents in the order in which the tour and the documentation introduce them."""
