"""Train several variants of a configuration with the same budget and compare them in one table."""
