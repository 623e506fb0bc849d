"""Everything that makes an update fast, and nothing about what is learned.

update            a loss becomes an update: run eagerly, compiled, or captured in a CUDA graph
optimiser         all weights as one flat vector, and RMSProp and Adam on it
threads           one thread for small batches on a CPU
compilation       torch.compile where it pays; compute dtype; denormals
cuda_graph        a sequence of kernels captured once and replayed
stream_gate       work enqueued on a stream before its input exists
host_buffers      pinned buffers between the environments and the learner's device
concurrent_gradients, space_to_depth, patches    the same sums in shapes that hardware computes faster

Measurements are from docs/performance.md and docs/lab/; a figure stands with each technique.
"""
