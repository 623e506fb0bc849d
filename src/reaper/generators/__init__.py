"""Generators of states, by name; the paper's GAN is one of them."""
