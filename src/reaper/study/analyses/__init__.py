"""What the paper computes beside training: students taught from scratch, weight sharing, and searches."""
