"""Reading what reaper 0.1 wrote: stores of format 2, packs of format 1, and their checkpoints.

Frozen: nothing here depends on today's settings, conditions or stages, so it keeps working as those change. `names` has
the tables of old and new names, `specs` and `records` convert what uses them, and `checkpoints` the state of unfinished
stages. `convert.py`, one level up, applies them to a whole folder.
"""
