"""Files for workers: a folder that they cannot leave."""
