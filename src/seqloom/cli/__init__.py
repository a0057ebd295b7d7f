"""The ``seqloom`` command."""
