"""The three networks of the paper, each a function of the frame size."""
