"""Engines run the stages of a study: here on one machine."""
