"""What else than shapes decides the cost of a call: dropout, recomputation, wanted gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from rnncost.counting.kinds import CallKind
from rnncost.counting.spec import RnnSpec
from rnncost.tracking.running import in_backward


def call_kind(*, packed: bool, dropout: float) -> CallKind:
    """The kind of a call that is running now; ``dropout`` is the probability in force between layers."""
    dropout_mults = 0 if not dropout else 1 if dropout == 1 else 2
    return CallKind(packed=packed, dropout_mults=dropout_mults, recomputed=in_backward())


def weight_names(spec: RnnSpec) -> Iterator[str]:
    """Parameter names in the order of ``_flat_weights``."""
    parts = ["weight_ih", "weight_hh"] + ["bias_ih", "bias_hh"] * spec.bias + ["weight_hr"] * (spec.proj_size > 0)
    for layer in range(spec.num_layers):
        for suffix in ("", "_reverse")[: spec.directions]:
            yield from (f"{part}_l{layer}{suffix}" for part in parts)


def frozen_weights(spec: RnnSpec, weights: Sequence[Tensor]) -> tuple[str, ...]:
    """Names of the weights, given in the order of ``_flat_weights``, that do not require grad."""
    named = zip(weight_names(spec), weights, strict=False)
    return tuple(sorted(name for name, weight in named if not weight.requires_grad))
