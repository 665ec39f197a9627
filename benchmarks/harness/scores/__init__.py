"""From paired times to statistics and a score. Pure numbers, no knowledge of kernels."""
