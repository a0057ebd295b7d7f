"""Search over tokens: greedy, sampling, beam."""
