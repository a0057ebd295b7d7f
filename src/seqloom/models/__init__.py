"""Whole models: layers put together for a task."""
