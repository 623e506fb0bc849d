"""Evaluation: whole episodes, during training and after it."""
