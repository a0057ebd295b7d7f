"""Matrix products for few rows, and softmax cross-entropy."""
