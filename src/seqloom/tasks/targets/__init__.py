"""What the tasks classify and tag predict, classes or numbers: predictions, losses, scores and baselines."""
