"""What torch is doing at this moment, beside the call that a hook reads."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.checkpoint import _StopRecomputationError


def in_backward() -> bool:
    """Whether this thread is inside a backward pass: a forward there is a recomputation."""
    return torch._C._current_graph_task_id() != -1


def stopped_early() -> bool:
    """Whether the forward ended because checkpointing had recomputed all that it needed."""
    kind = sys.exc_info()[0]
    return kind is not None and issubclass(kind, _StopRecomputationError)


def is_tracing() -> bool:
    """Whether ``torch.jit.trace`` records what runs; sizes are tensors then."""
    return torch._C._get_tracing_state() is not None


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
