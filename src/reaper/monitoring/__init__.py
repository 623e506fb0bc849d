"""Following a run while it runs: heartbeat files in its folder, curves for TensorBoard and wandb, `reaper watch`."""
