"""CTC (Graves et al. 2006): loss with gradient, and forced alignment."""
