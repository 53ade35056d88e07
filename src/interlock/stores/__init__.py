"""Who keeps what outlives a turn."""
