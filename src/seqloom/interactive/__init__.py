"""Training from Python: data in memory, and progress in terminals and notebooks."""
