"""Fusion of a recurrent cell's step and its gradient into one compiled loop over time."""
