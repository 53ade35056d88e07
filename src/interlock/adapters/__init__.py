"""Who grants a capability: one adapter for each way of doing it."""
