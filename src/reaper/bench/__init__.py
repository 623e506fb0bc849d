"""Benchmarks: the speed of this machine, and how long a study takes on it."""
