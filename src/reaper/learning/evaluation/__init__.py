"""Evaluation: whole episodes with fixed weights, during training and after it."""
