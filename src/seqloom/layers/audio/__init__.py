"""Waveforms to features, and their augmentation."""
