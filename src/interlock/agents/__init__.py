"""The agents: one package each."""
