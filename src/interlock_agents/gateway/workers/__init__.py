"""Workers: DeepAgents whose models and tools pass the gate."""
