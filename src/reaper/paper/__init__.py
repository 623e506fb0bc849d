"""What the paper prints: its tables of settings and its published numbers."""
