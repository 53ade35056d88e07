"""Adapters that convert audio and images into input for a model."""
