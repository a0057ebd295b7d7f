"""Models: layers assembled for a task."""
