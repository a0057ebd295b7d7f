"""Recurrent layers: a cell run over time, in one or both directions."""
