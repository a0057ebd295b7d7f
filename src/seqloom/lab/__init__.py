"""Claims about sequence models, one file each: an experiment, its figure, its verdict."""
