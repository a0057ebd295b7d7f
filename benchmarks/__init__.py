"""Speed benchmarks against other libraries, and results on real data; run by scripts/benchmarks and scripts/results."""
