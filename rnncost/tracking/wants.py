"""What besides shapes decides the cost of a call: dropout, recomputation, wanted gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from rnncost.counting.kinds import BackwardKind, CallKind
from rnncost.counting.spec import RnnSpec
from rnncost.tracking.running import in_backward

INPUT, STATE, CELL = "input", "state", "cell"


def call_kind(*, packed: bool, dropout: float) -> CallKind:
    """The kind of a call that is running now; ``dropout`` is the probability in force between layers."""
    return CallKind(packed=packed, dropout_mults=dropout_mults(dropout), recomputed=in_backward())


def dropout_mults(probability: float) -> int:
    """Multiplications that dropout of this probability costs an element, as in :class:`CallKind`."""
    if not probability:
        return 0
    return 1 if probability == 1 else 2


def cell_weights(cell: nn.Module) -> list[Tensor]:
    """The weights of a cell, in the order that :func:`weight_names` gives them."""
    found = (getattr(cell, name, None) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    return [weight for weight in found if isinstance(weight, Tensor)]


def weight_names(spec: RnnSpec) -> Iterator[str]:
    """Parameter names in the order of ``_flat_weights``."""
    parts = ["weight_ih", "weight_hh"] + ["bias_ih", "bias_hh"] * spec.bias + ["weight_hr"] * (spec.proj_size > 0)
    for layer in range(spec.num_layers):
        for suffix in ("", "_reverse")[: spec.directions]:
            yield from (f"{part}_l{layer}{suffix}" for part in parts)


def input_weights(spec: RnnSpec) -> frozenset[str]:
    """Names of the weights that multiply the input of the module."""
    return frozenset(("weight_ih_l0", "weight_ih_l0_reverse")[: spec.directions])


def frozen_weights(spec: RnnSpec, weights: Sequence[Tensor]) -> tuple[str, ...]:
    """Names of the weights, given in the order of ``_flat_weights``, that do not require grad."""
    named = zip(weight_names(spec), weights, strict=False)
    return tuple(sorted(name for name, weight in named if not weight.requires_grad))


@dataclass(frozen=True, kw_only=True)
class Given:
    """The tensors of one call, while it is being read: they are not to be kept.

    Attributes:
        data: the input, padded or the data of a packed one.
        state: the given hidden state, if any.
        cell: the given cell state, if any.
        weights: in the order of ``_flat_weights``.
        unsorted: the batch was packed with ``enforce_sorted=False``.
    """

    data: Tensor
    state: Tensor | None
    cell: Tensor | None
    weights: Sequence[Tensor]
    unsorted: bool = False

    def backward_kind(self, spec: RnnSpec, called: CallKind) -> BackwardKind:
        """The kind of this call's backward; what the gradient comes through is not known yet."""
        return BackwardKind(
            packed=called.packed,
            unsorted=self.unsorted,
            dropout_mults=called.dropout_mults,
            input_grad=self.data.requires_grad,
            state_grad=self.state is not None and self.state.requires_grad,
            cell_grad=self.cell is not None and self.cell.requires_grad,
            frozen=frozen_weights(spec, self.weights),
        )

    def gradient_nodes(self, spec: RnnSpec) -> dict[str, Any]:
        """The autograd nodes that receive the gradients of the call, by parameter name or role.

        A backward that is asked for some gradients only (``torch.autograd.grad``, ``inputs=``)
        runs some of them; the engine tells which, while it runs.
        """
        named = {**dict(zip(weight_names(spec), self.weights, strict=False)), INPUT: self.data}
        states = {name: tensor for name, tensor in ((STATE, self.state), (CELL, self.cell)) if tensor is not None}
        wanted = {name: tensor for name, tensor in {**named, **states}.items() if tensor.requires_grad}
        return {name: node for name, tensor in wanted.items() if (node := _gradient_node(tensor)) is not None}


def _gradient_node(tensor: Tensor) -> Any:
    try:
        return get_gradient_edge(tensor).node
    except (AttributeError, RuntimeError):  # wrapped by torch.func: taken to receive its gradient
        return None
