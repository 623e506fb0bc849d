"""How agents and generators learn: Algorithms 1 to 3 of the paper."""
