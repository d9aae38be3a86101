"""Runs a layer padded and packed on the same data, to see what padding changes."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from rnncost.counting.lengths import check_lengths
from rnncost.counting.spec import RnnSpec
from rnncost.errors import UnsupportedModuleError
from rnncost.reporting.contamination import Contamination, Difference
from rnncost.tracking import stock
from rnncost.tracking.undisturbed import undisturbed

_DIRECTIONS = ("forward", "reverse")


def contamination(rnn: nn.Module, lengths: Iterable[Any], *, seed: int = 0, name: str | None = None) -> Contamination:
    """Compares a layer's padded run with its packed run on random sequences.

    Outputs at real steps and final states are compared, for each direction. The layer's hooks
    are off meanwhile, a layer in half precision is compared in single precision, and it runs
    without gradients and without dropout; its mode and the global random state are as before
    afterwards. Padding is zeros, after the end of each sequence.

    Args:
        rnn: an ``nn.RNN``, ``nn.GRU`` or ``nn.LSTM``, on any device.
        lengths: steps of each sequence, in any order.
        seed: of the data.
        name: what to call the layer; its class name by default.

    Raises:
        UnsupportedModuleError: if ``rnn`` is not such a layer.
        LengthsError: for lengths that no batch can have.
    """
    spec = stock.read_spec(rnn) if isinstance(rnn, nn.RNNBase) else None
    if spec is None or not isinstance(rnn, nn.RNNBase) or not stock.is_stock_layer(rnn):
        raise UnsupportedModuleError(
            f"{type(rnn).__name__} is not an nn.RNN, nn.GRU or nn.LSTM with torch's own forward"
        )
    if next(rnn.parameters()).is_meta:
        raise UnsupportedModuleError("the layer is on the meta device, where nothing can be run; move it to another")
    checked = check_lengths(lengths)
    if next(rnn.parameters()).dtype in (torch.float16, torch.bfloat16):
        rnn = copy.deepcopy(rnn).float()  # else its own rounding would hide what padding does
    padded = _random_batch(rnn, spec, checked, seed)
    packed = pack_padded_sequence(padded, torch.tensor(checked), batch_first=rnn.batch_first, enforce_sorted=False)
    with undisturbed(rnn, without_hooks=True), torch.no_grad():
        rnn.eval()
        padded_output, padded_final = rnn(padded)
        packed_output, packed_final = rnn(packed)
    true_output, _ = pad_packed_sequence(packed_output, batch_first=rnn.batch_first)
    real = true_output.new_zeros(true_output.shape[:2], dtype=torch.bool)
    for row, length in enumerate(checked):
        (real if rnn.batch_first else real.T)[row, :length] = True
    scale = max(1.0, float(true_output.abs().max()))
    tolerance = 100 * torch.finfo(true_output.dtype).eps * scale
    if not bool(torch.isfinite(true_output).all()):
        raise UnsupportedModuleError(
            "the layer's outputs are not finite, so there is nothing to compare; look at its weights"
        )
    errors = (padded_output - true_output).abs() * real.unsqueeze(-1)
    if not rnn.batch_first:
        errors = errors.transpose(0, 1)
    differences = [*_outputs(errors, spec, tolerance), *_states(padded_final, packed_final, spec, tolerance)]
    return Contamination(
        name=name or type(rnn).__name__,
        spec=spec,
        lengths=checked,
        tolerance=tolerance,
        differences=tuple(differences),
    )


def _outputs(errors: Tensor, spec: RnnSpec, tolerance: float) -> Iterator[Difference]:
    for direction, part in zip(_DIRECTIONS, errors.split(spec.output_size, dim=-1), strict=False):  # type: ignore[no-untyped-call]
        yield _difference("output", spec.num_layers - 1, direction, part.flatten(1), tolerance)


def _states(padded: Any, packed: Any, spec: RnnSpec, tolerance: float) -> Iterator[Difference]:
    pairs = zip(padded, packed, strict=True) if isinstance(padded, tuple) else [(padded, packed)]
    for what, (ours, true) in zip(("hidden", "cell"), pairs, strict=False):
        for row, error in enumerate((ours - true).abs()):
            layer, reverse = divmod(row, spec.directions)
            yield _difference(what, layer, _DIRECTIONS[reverse], error, tolerance)


def _difference(what: str, layer: int, direction: str, errors: Tensor, tolerance: float) -> Difference:
    largest = errors.amax(dim=1)
    return Difference(
        what=what,
        layer=layer,
        direction=direction,
        largest=float(largest.max()),
        sequences=int((largest > tolerance).sum()),
    )


def _random_batch(rnn: nn.RNNBase, spec: RnnSpec, lengths: tuple[int, ...], seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    weight = next(iter(rnn.parameters()))
    batch = torch.zeros(len(lengths), max(lengths), spec.input_size)
    for row, length in enumerate(lengths):
        batch[row, :length] = torch.randn(length, spec.input_size, generator=generator)
    batch = batch.to(device=weight.device, dtype=weight.dtype)
    return batch if rnn.batch_first else batch.transpose(0, 1).contiguous()
