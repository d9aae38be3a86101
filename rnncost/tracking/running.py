"""What torch is doing at this moment, beside the call that a hook reads."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.checkpoint import _StopRecomputationError

NO_GRAPH_TASK = -1


def in_backward() -> bool:
    """Whether this thread is inside a backward pass: a forward there is a recomputation."""
    return torch._C._current_graph_task_id() != NO_GRAPH_TASK


def stopped_early() -> bool:
    """Whether the forward ended because checkpointing had recomputed all that it needed."""
    kind = sys.exc_info()[0]
    return kind is not None and issubclass(kind, _StopRecomputationError)


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Keeps ``torch.jit.trace`` from recording how sizes are read, so that they are numbers."""
    binding: Any = torch._C  # its stub does not list the setter
    state = binding._get_tracing_state()
    if state is not None:
        binding._set_tracing_state(None)
    try:
        yield
    finally:
        if state is not None:
            binding._set_tracing_state(state)


def raised(output: Any) -> bool:
    """Whether the forward of a hooked module raised: torch then calls the hook while it handles the exception."""
    return output is None and sys.exc_info()[0] is not None


def vmapped(tensor: torch.Tensor) -> int:
    """How many times over ``torch.vmap`` runs what is seen here as one call on ``tensor``."""
    functorch: Any = torch._C._functorch
    inner = tensor
    while functorch.is_batchedtensor(inner) or functorch.is_gradtrackingtensor(inner):
        inner = functorch.get_unwrapped(inner)
    return inner.numel() // tensor.numel() if tensor.numel() else 1
