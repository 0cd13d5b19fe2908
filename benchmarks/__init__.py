"""Benchmarks: each checks the answer that it times, and prints ratios from one run."""
