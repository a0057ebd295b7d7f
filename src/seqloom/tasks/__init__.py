"""Tasks: the file's name is the name in the configuration."""
