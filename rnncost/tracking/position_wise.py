"""Finds layers that work step by step on a padded output, after a recurrent layer ran packed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rnncost.reporting.whole_model import PositionWise

_KINDS = (nn.Linear, nn.LayerNorm, nn.Embedding)


@contextlib.contextmanager
def watch_position_wise(model: nn.Module) -> Iterator[Callable[[], list[PositionWise]]]:
    """Watches the calls of ``model`` inside the context; the function that it yields tells what was found.

    A layer counts if its input has the sequences and steps of a packed batch that a recurrent
    layer ran before, in either order, so that the real ones among them are known.
    """
    found: dict[str, PositionWise] = {}
    real_rows: dict[tuple[int, int], int] = {}

    def recurrent(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        given = args[0] if args else kwargs.get("input")
        if isinstance(given, PackedSequence):
            sequences, steps, rows = int(given.batch_sizes[0]), len(given.batch_sizes), given.data.shape[0]
            real_rows[sequences, steps] = real_rows[steps, sequences] = rows

    def position_wise(name: str) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Any], None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            given = args[0] if args else kwargs.get("input")
            rank = 2 if isinstance(module, nn.Embedding) else 3
            if not isinstance(given, Tensor) or given.dim() != rank:
                return
            sizes = (given.shape[0], given.shape[1])
            if sizes in real_rows:
                one = _work(name, module, sizes[0] * sizes[1], real_rows[sizes])
                found[name] = found[name].merge(one) if name in found else one

        return hook

    with contextlib.ExitStack() as stack:
        for name, module in model.named_modules():
            if isinstance(module, nn.RNNBase):
                stack.enter_context(module.register_forward_hook(recurrent, with_kwargs=True))
            elif isinstance(module, _KINDS):
                stack.enter_context(module.register_forward_hook(position_wise(name), with_kwargs=True))
        yield lambda: list(found.values())


def _work(name: str, module: nn.Module, rows: int, real_rows: int) -> PositionWise:
    macs = rows * module.in_features * module.out_features if isinstance(module, nn.Linear) else 0
    return PositionWise(name=name, type_name=type(module).__name__, rows=rows, real_rows=real_rows, macs=macs)
