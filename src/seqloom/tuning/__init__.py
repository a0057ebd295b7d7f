"""Hyperparameter tuning: a search space in TOML, trials in processes of their own, a journal that processes share."""
