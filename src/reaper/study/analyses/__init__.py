"""What the paper computes besides training: students from scratch, overlap of weights, and grid searches."""
