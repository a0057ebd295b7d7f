"""Search for the most probable outputs, given a step function or frames; independent of any model."""
