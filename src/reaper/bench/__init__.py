"""How fast this machine is, and how long a study takes on it."""
