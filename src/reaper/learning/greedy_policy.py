"""Greedy actions of a network for the newest states; on a GPU, computed on a stream of their own.

Environments are idle from the arrival of their observations until they have their next actions. So on a GPU

- pushing the observations and choosing the greedy actions is one CUDA graph: one launch instead of 25;
- alongside a learner it runs on a high-priority stream, so that it does not wait for updates (Pong: 0.80 instead of
  0.70 of the speed of bare emulation);
- it is enqueued while the environments still step, behind a gate that opens when their observations have arrived
  (compute/stream_gate.py).

On a CPU none of this happens: actions are computed when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from reaper.compute.cuda_graph import capture_graph
from reaper.compute.stream_gate import StreamGate, new_stream_gate
from reaper.compute.threads import threads_for
from reaper.learning.exploration import ForwardPass, greedy_actions
from reaper.learning.frame_stack import FrameStack
from reaper.tasks.task import Step


class GreedyPolicy:
    """Keeps the greedy actions up to date with a frame stack."""

    def __init__(self, frames: FrameStack, forward: ForwardPass, num_actions: int, *, cuda_graphs: bool = True) -> None:
        """`num_actions` are those of the task, which may be fewer than the network's outputs."""
        self.frames, self._forward, self._num_actions = frames, forward, num_actions
        self._on_gpu = frames.states.is_cuda
        self._captures = self._on_gpu and cuda_graphs
        self._network: torch.nn.Module | None = None
        self._graph: Callable[[], None] | None = None  # pushes the observations and chooses actions by the network
        self._actions = torch.zeros(len(frames.states), dtype=torch.int64, pin_memory=self._captures)
        self._host_actions = self._actions.numpy()
        self._up_to_date = False  # whether these are the actions for the states on the stack
        self._stream: torch.cuda.Stream | None = None  # None: whichever is current
        self._may_start: torch.cuda.Event | None = None
        self._gate: StreamGate | None = None

    def use_own_stream(self) -> None:
        """Leaves the learner's stream for one of high priority. From then on the learner has to call `allow_next`."""
        if self._captures:
            self._stream, self._may_start = torch.cuda.Stream(priority=-1), torch.cuda.Event()
            self._gate = new_stream_gate()

    def choose_among(self, num_actions: int) -> None:
        """Chooses among the first `num_actions` outputs from now on."""
        if num_actions != self._num_actions:
            self._num_actions, self._graph, self._up_to_date = num_actions, None, False

    def allow_next(self) -> None:
        """The next choice waits for everything the learner has enqueued so far, such as reading the last transition and
        copying the network's weights, and for nothing that it enqueues later."""
        if self._may_start:
            self._may_start.record()

    def actions(self, network: torch.nn.Module) -> np.ndarray:
        """(num_envs,) the greedy actions for the states on the stack."""
        if self._network is not network:
            self._network, self._graph, self._up_to_date = network, None, False
        if not self._up_to_date:
            self.wait_for_learner()
            with torch.cuda.stream(self._stream), threads_for(len(self.frames.states)):
                return self._greedy(network).cpu().numpy()
        self.synchronize()
        return self._host_actions

    def observe(self, receive: Callable[[], Step], may_use_gpu: bool) -> Step:
        """Receives a step, pushes its observations and starts the choice of the next actions.

        The choice is enqueued before the observations arrive if `receive` does not use the GPU. The network's weights
        must not change between this call and the next `actions`.
        """
        self._up_to_date = self._graph is not None
        if self._up_to_date and self._gate and self._stream and not may_use_gpu:
            with self._gate.closed(self._stream):
                self._enqueue()
                step = receive()
        else:
            step = receive()
            self._enqueue()
        return step

    def _enqueue(self) -> None:
        if self._stream and self._may_start:
            self._stream.wait_event(self._may_start)
        with torch.cuda.stream(self._stream):
            if self._graph:
                self._graph()
            else:
                self.frames.push()
                if self._captures and self._network is not None:  # it has been run, so all it needs is compiled
                    self._graph = capture_graph(self._push_and_choose, stream=self._stream)

    def _push_and_choose(self) -> None:
        self.frames.push()
        assert self._network is not None
        self._actions.copy_(self._greedy(self._network), non_blocking=True)

    def _greedy(self, network: torch.nn.Module) -> torch.Tensor:
        return greedy_actions(self._forward, network, self.frames.states, self._num_actions)

    def invalidate(self) -> None:
        """The states on the stack have changed otherwise than by `observe`."""
        self._up_to_date = False

    def synchronize(self) -> None:
        """Waits until the GPU has finished the last choice."""
        if self._on_gpu:
            (self._stream or torch.cuda.current_stream()).synchronize()

    def wait_for_learner(self) -> None:
        """Orders this policy's stream after what is enqueued on the learner's."""
        if self._stream:
            self._stream.wait_stream(torch.cuda.current_stream())

    def make_learner_wait(self) -> None:
        """Orders the learner's stream after this policy's."""
        if self._stream:
            torch.cuda.current_stream().wait_stream(self._stream)
