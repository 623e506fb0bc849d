"""Trained agents for other programs: as an ONNX graph, as a torch module, or as a folder for a model hub."""
