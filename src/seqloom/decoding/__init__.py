"""From a step function to sequences; knows no model."""
