"""Metrics as the fields that use them define them."""
