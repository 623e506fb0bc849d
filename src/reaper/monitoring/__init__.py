"""Watching a run while it runs: signs of life in its folder, curves for TensorBoard and wandb, `reaper watch`."""
