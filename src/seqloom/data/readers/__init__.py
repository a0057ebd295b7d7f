"""Files to examples, one file format family per module."""
