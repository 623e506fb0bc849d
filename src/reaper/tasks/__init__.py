"""Tasks: environments to learn, behind one contract (task.py), with one observation spec (observation.py)."""
