"""Verification of agents: what is proved of their graphs (`proofs`), and the verdicts on all that they guarantee (`verdicts`)."""
