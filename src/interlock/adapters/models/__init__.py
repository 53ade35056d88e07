"""Who answers a ModelRequest."""
