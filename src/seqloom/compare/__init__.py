"""Several configurations trained at equal budget and compared: variants → trials → one table."""
