"""Verification of agents: their guarantees (`invariants`) and the verdicts on them (`verdicts`).

Agents declare invariants, and the verdicts run agents, so this package imports neither of its modules.
"""
