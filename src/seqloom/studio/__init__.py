"""A local web application that shows runs: ``seqloom studio``."""
