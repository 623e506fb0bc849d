"""What makes updates fast: flat optimisers, compilation, CUDA graphs, streams and memory layouts."""
