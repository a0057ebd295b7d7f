"""Data sets that need no file: generated, or taken from the Python installation."""
