"""A decoder step as a list of operations that runs as one call."""
