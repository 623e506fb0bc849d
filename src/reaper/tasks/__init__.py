"""Tasks: the games an agent learns, behind one contract (task.py)."""
