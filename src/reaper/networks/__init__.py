"""Q-networks: one family per kind of observation (families.py), and how weights from a file are put into them."""
