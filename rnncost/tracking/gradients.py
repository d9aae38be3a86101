"""Counts the backward passes that really ran, by hooks on the outputs of a call."""

from __future__ import annotations

from typing import Any

import msgspec
import torch
from torch import Tensor

from rnncost.counting.kinds import BackwardKind
from rnncost.counting.shape import BatchShape
from rnncost.tracking.recorder import Recorder


class BackwardCall:
    """One forward call whose backward may run, once or more or never. Holds sizes, no tensor.

    Bound: an ``LSTMCell`` returns the very cell state that its own tanh uses, so a gradient is
    seen to arrive there whether or not somebody else used it. One addition for each of its B·H
    elements is then counted although there was nothing to add, typically in the last call of a loop.

    Args:
        recorder: where each backward is added.
        kind: what wants gradients; what they come through is seen when they arrive.
        shape: the batch of the call.
    """

    __slots__ = ("_cancelled", "_kind", "_recorder", "_shape")

    def __init__(self, *, recorder: Recorder, kind: BackwardKind, shape: BatchShape) -> None:
        self._recorder = recorder
        self._kind = kind
        self._shape = shape
        self._cancelled = False

    def watch(self, output: Tensor | None, state: Tensor | None = None, cell: Tensor | None = None) -> None:
        """Puts a hook on each output that is part of the graph."""
        if not self._shape.rows:
            return  # a batch without sequences: its backward only adds zeros to zeros
        for way, tensor in enumerate((output, state, cell)):
            if tensor is not None and tensor.requires_grad:
                tensor.register_hook(_Arrival(self, way))  # type: ignore[no-untyped-call]

    def cancel(self) -> None:
        """Stops counting: somebody else counts this call."""
        self._cancelled = True

    def arrived(self, way: int) -> None:
        """A gradient arrived at the output (0), the final state (1) or the final cell state (2)."""
        if self._cancelled or not self._recorder.listening:
            return
        if torch.is_grad_enabled():
            self._recorder.create_graph = True
        backward_pass = torch._C._current_graph_task_id()
        if self._recorder.arrive(self, backward_pass, way):
            # All ways in have been used when the pass ends, not before.
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(lambda: self._recorder.finish(self, backward_pass))

    def reading(self, ways: frozenset[int]) -> tuple[BackwardKind, BatchShape]:
        """The kind of a backward that came through ``ways``, and the batch."""
        through = {name: way in ways for way, name in enumerate(("through_output", "through_state", "through_cell"))}
        return msgspec.structs.replace(self._kind, **through), self._shape


class _Arrival:
    """The hook on one output."""

    __slots__ = ("_call", "_way")
    # torch.save of the tensor need not warn that this hook is left out.
    __torch_unserializable__ = True

    def __init__(self, call: BackwardCall, way: int) -> None:
        self._call = call
        self._way = way

    def __call__(self, grad: Tensor) -> None:
        self._call.arrived(self._way)
