"""Counts the backward passes that really ran, by hooks on the outputs of a call."""

from __future__ import annotations

from typing import Any

import msgspec
import torch
from torch import Tensor

from rnncost.counting.kinds import BackwardKind, CallKind
from rnncost.counting.shape import BatchShape
from rnncost.counting.spec import RnnSpec
from rnncost.tracking.recorder import Recorder
from rnncost.tracking.running import vmapped
from rnncost.tracking.wants import CELL, INPUT, STATE, Given, input_weights

CREATE_GRAPH = "the backward of a backward (create_graph=True), if one ran"
VMAPPED = "its backward under torch.vmap (as in torch.func.jacrev), counted once for all that run together"


class BackwardCall:
    """One forward call whose backward may run, once or more or never. Holds sizes and autograd nodes, no tensor.

    Bound: an ``LSTMCell`` returns the very cell state that its own tanh uses, so a gradient is
    seen to arrive there whether or not somebody else used it. One addition for each of its B·H
    elements is then counted although there was nothing to add, typically in the last call of a loop.

    Args:
        recorder: where each backward is added.
        spec: the module.
        called: the kind of the forward call.
        shape: the batch of the call.
        given: the tensors of the call, from which is read what wants gradients.
    """

    __slots__ = ("__weakref__", "_cancelled", "_kind", "_last", "_nodes", "_recorder", "_shape")

    def __init__(self, *, recorder: Recorder, spec: RnnSpec, called: CallKind, shape: BatchShape, given: Given) -> None:
        self._recorder = recorder
        self._kind = given.backward_kind(spec, called)
        self._nodes = given.gradient_nodes(spec)
        self._last = input_weights(spec)
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

    def arrived(self, way: int, *, device: torch.device, vmapped: bool) -> None:
        """A gradient on ``device`` arrived at the output (0), the final state (1) or the final cell state (2)."""
        if self._cancelled or not self._recorder.listening:
            return
        times = self._recorder.times
        reached = None if times is None else times.reached()
        if torch.is_grad_enabled():
            self._recorder.missed[CREATE_GRAPH] = None
        if vmapped:
            self._recorder.missed[VMAPPED] = None
        backward_pass = torch._C._current_graph_task_id()
        left_out = self._recorder.arrive(self, backward_pass, way, self._left_out)
        if left_out is not None:
            # All ways in have been used when the pass ends, not before.
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(lambda: self._recorder.finish(self, backward_pass))
            if times is not None:
                nodes = {name: node for name, node in self._nodes.items() if name not in left_out}
                times.begin(
                    backward_pass=backward_pass,
                    device=device,
                    nodes=nodes,
                    last=self._last,
                    reached=reached,
                    vmapped=vmapped,
                )

    def reading(self, ways: frozenset[int], left_out: frozenset[str]) -> tuple[BackwardKind, BatchShape]:
        """The kind of a backward that came through ``ways`` and left some gradients out, and the batch."""
        kind = self._kind
        through = {name: way in ways for way, name in enumerate(("through_output", "through_state", "through_cell"))}
        weights = left_out - {INPUT, STATE, CELL}
        reading = msgspec.structs.replace(
            kind,
            input_grad=kind.input_grad and INPUT not in left_out,
            state_grad=kind.state_grad and STATE not in left_out,
            cell_grad=kind.cell_grad and CELL not in left_out,
            frozen=tuple(sorted({*kind.frozen, *weights})),
            **through,
        )
        return reading, self._shape

    def _left_out(self) -> frozenset[str]:
        """What wants a gradient and gets none in the pass that is running."""
        return frozenset(name for name, node in self._nodes.items() if not _runs(node))


def _runs(node: Any) -> bool:
    try:
        return bool(torch._C._will_engine_execute_node(node))
    except RuntimeError:  # a leaf whose gradient torch.autograd.grad returns
        return True


class _Arrival:
    """The hook on one output."""

    __slots__ = ("_call", "_way")
    # torch.save of the tensor need not warn that this hook is left out.
    __torch_unserializable__ = True

    def __init__(self, call: BackwardCall, way: int) -> None:
        self._call = call
        self._way = way

    def __call__(self, grad: Tensor | None) -> None:
        if grad is None:  # whoever used the output has none to give
            return
        self._call.arrived(self._way, device=grad.device, vmapped=vmapped(grad) > 1)
