"""Child processes with limits, for components that cannot be limited inside this process."""
