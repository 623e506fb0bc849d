"""Reads a store back: runs, tidy rows and metrics."""
