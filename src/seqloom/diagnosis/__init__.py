"""The doctor: why a model does not learn, from its gradients, states, gates, attention and training record."""
