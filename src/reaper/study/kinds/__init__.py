"""The kinds of stages, one file each: how a stage is described, how it runs, and how much work it is."""
