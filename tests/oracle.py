"""Counts the operations that torch dispatches, one tensor operation at a time.

It knows nothing of recurrent layers: each ATen operator is charged for its own elements, and an
operator that it does not know raises, so that nothing is left out in silence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rnncost.counting.opcount import OpCount

# Views, copies, allocations and indexing: no arithmetic.
_FREE = {
    "_local_scalar_dense", "_pack_padded_sequence", "_pad_packed_sequence", "_reshape_alias",
    "_to_copy", "_unsafe_view", "alias", "arange", "as_strided", "bernoulli_", "cat", "clone",
    "copy_", "detach", "detach_", "empty", "empty_like", "empty_strided", "expand", "fill_",
    "flip", "index", "index_select", "lift_fresh", "narrow", "neg", "new_empty",
    "new_empty_strided", "new_zeros", "ones_like", "permute", "reshape", "select",
    "select_backward", "slice", "slice_backward", "split", "split_with_sizes", "squeeze", "stack",
    "t", "t_", "threshold_backward", "transpose", "transpose_", "unbind", "unflatten",
    "unsafe_split", "unsafe_split_with_sizes", "unsqueeze", "view", "zero_", "zeros", "zeros_like",
}  # fmt: skip


class DispatchedOps(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sums the operations of everything dispatched while it is entered, in ``count``."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = OpCount()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in _COSTS:
            self.count += _COSTS[name](args, result)
        elif name not in _FREE:
            raise AssertionError(f"the oracle does not know {func}")
        return result


def _product(args: tuple[Any, ...], result: Tensor) -> OpCount:
    terms = args[0].shape[-1]
    return OpCount(matmul_mults=result.numel() * terms, matmul_adds=result.numel() * (terms - 1))


def _biased_product(args: tuple[Any, ...], result: Tensor) -> OpCount:
    return _product(args[1:], result) + OpCount(bias_adds=result.numel())


def _add(args: tuple[Any, ...], result: Tensor) -> OpCount:
    # A vector added to a matrix is a bias; everything else is arithmetic of the cell.
    if isinstance(args[1], Tensor) and args[1].dim() == 1 < result.dim():
        return OpCount(bias_adds=result.numel())
    return OpCount(gate_adds=result.numel())


def _mul(args: tuple[Any, ...], result: Tensor) -> OpCount:
    return OpCount(gate_mults=result.numel())


def _activation(args: tuple[Any, ...], result: Tensor) -> OpCount:
    return OpCount(activations=result.numel())


def _derivative(args: tuple[Any, ...], result: Tensor) -> OpCount:
    # sigmoid: g · y · (1 - y); tanh: g · (1 - y · y)
    return OpCount(gate_mults=2 * result.numel(), gate_adds=result.numel())


def _sum(args: tuple[Any, ...], result: Tensor) -> OpCount:
    return OpCount(accumulate_adds=args[0].numel() - result.numel())


def _scatter_add(args: tuple[Any, ...], result: Tensor) -> OpCount:
    return OpCount(accumulate_adds=args[3].numel())


_COSTS: dict[str, Callable[[tuple[Any, ...], Tensor], OpCount]] = {
    "mm": _product,
    "bmm": _product,
    "addmm": _biased_product,
    "add": _add,
    "add_": _add,
    "sub": _add,
    "mul": _mul,
    "mul_": _mul,
    "sigmoid": _activation,
    "sigmoid_": _activation,
    "tanh": _activation,
    "tanh_": _activation,
    "relu": _activation,
    "relu_": _activation,
    "div_": _mul,
    "sigmoid_backward": _derivative,
    "tanh_backward": _derivative,
    "sum": _sum,
    "index_add": _scatter_add,
    "index_add_": _scatter_add,
}


@contextlib.contextmanager
def dispatched() -> Iterator[DispatchedOps]:
    """What torch's native CPU kernels perform, with the oneDNN kernels, which hide it, off."""
    with native_kernels(), DispatchedOps() as ops:
        yield ops


@contextlib.contextmanager
def native_kernels() -> Iterator[None]:
    """Turns the oneDNN kernels off. (``torch.backends.mkldnn.flags`` warns of an unrelated option.)"""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def same_operations(counted: OpCount, seen: OpCount) -> bool:
    """Equal in every category, but that dispatch cannot tell sums of gradients from other adds."""
    return (
        counted.matmul_mults == seen.matmul_mults
        and counted.matmul_adds == seen.matmul_adds
        and counted.bias_adds == seen.bias_adds
        and counted.gate_mults == seen.gate_mults
        and counted.gate_adds + counted.accumulate_adds == seen.gate_adds + seen.accumulate_adds
        and counted.activations == seen.activations
    )
