"""The paper's published results."""
