"""Benchmarks: each checks the answer it times and prints ratios of one run."""
