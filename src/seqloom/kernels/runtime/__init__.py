"""What all kernels need: threads, buffers, batch partitions, numba decorators, detection of changed modules."""
