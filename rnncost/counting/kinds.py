"""What makes calls of one module differ in cost, beside the shapes of their batches."""

from __future__ import annotations

import msgspec


class CallKind(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A kind of forward call.

    Attributes:
        packed: the input was a ``PackedSequence``.
        dropout_mults: multiplications that dropout between layers costs an element: 0 where it
            is not active, else 2 (the mask is scaled, then applied), or 1 at a probability of 1.
        recomputed: the call ran inside a backward pass, as activation checkpointing has it.
    """

    packed: bool
    dropout_mults: int = 0
    recomputed: bool = False


class BackwardKind(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A kind of backward: what wanted a gradient, and what the gradient came through.

    Attributes:
        packed: the input was a ``PackedSequence``.
        unsorted: it was packed with ``enforce_sorted=False``, so that states are reordered.
        dropout_mults: as in :class:`CallKind`.
        input_grad: the input required grad.
        state_grad: the given hidden state required grad.
        cell_grad: the given cell state (LSTM) required grad.
        frozen: names of the parameters that did not require grad, as in ``named_parameters``.
        through_output: a gradient arrived at the output.
        through_state: a gradient arrived at the final hidden state.
        through_cell: a gradient arrived at the final cell state (LSTM).
    """

    packed: bool
    unsorted: bool = False
    dropout_mults: int = 0
    input_grad: bool = False
    state_grad: bool = False
    cell_grad: bool = False
    frozen: tuple[str, ...] = ()
    through_output: bool = True
    through_state: bool = False
    through_cell: bool = False
