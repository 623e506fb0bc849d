"""The paper's GAN: networks, losses in a training loop, checkpoints."""
