"""Recurrent operators for ``fvcore.nn.FlopCountAnalysis``, which has none.

```
from fvcore.nn import FlopCountAnalysis
from rnncost.integrations.fvcore import RNN_OP_HANDLES

FlopCountAnalysis(model, inputs).set_op_handle(**RNN_OP_HANDLES).total()
```

The unit is fvcore's: one MAC is one flop. Works for padded input and for models that pack inside their
``forward`` (a ``PackedSequence`` cannot be passed through ``torch.jit.trace``). fvcore itself is not
imported here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from rnncost.counting import formulas
from rnncost.counting.spec import GATES, Kind, RnnSpec

Handle = Callable[[list[Any], list[Any]], "Counter[str]"]


def _layer_handle(kind: Kind) -> Handle:
    """``(input, hx, params, …)`` padded, ``(data, batch_sizes, hx, params, …)`` packed; rows are those of the input."""

    def handle(inputs: list[Any], outputs: list[Any]) -> Counter[str]:
        # aten::lstm takes a list of two states, the others one tensor.
        packed = not _is_list(inputs[1 if kind == "lstm" else 2])
        states, _params, has_biases, num_layers, _, _, bidirectional = inputs[2:9] if packed else inputs[1:8]
        widths = [_shape(state)[-1] for state in (_items(states) if _is_list(states) else [states])]
        data = _shape(inputs[0])
        spec = RnnSpec.of_widths(
            kind,
            inputs=data[-1],
            state=widths[0],
            cell=widths[1] if kind == "lstm" else None,
            num_layers=num_layers.toIValue(),
            bias=has_biases.toIValue(),
            bidirectional=bidirectional.toIValue(),
        )
        return _count(kind, spec, data)

    return handle


def _cell_handle(kind: Kind) -> Handle:
    """``(input, hx, w_ih, w_hh, b_ih, b_hh)``."""

    def handle(inputs: list[Any], outputs: list[Any]) -> Counter[str]:
        data, weight_hh = _shape(inputs[0]), _shape(inputs[3])
        spec = RnnSpec(kind=kind, input_size=data[-1], hidden_size=weight_hh[-1], cell=True)
        return _count(f"{kind}_cell", spec, data)

    return handle


def _count(name: str, spec: RnnSpec, data: list[int]) -> Counter[str]:
    return Counter({name: math.prod(data[:-1]) * formulas.forward_row(spec).macs})


def _shape(value: Any) -> list[int]:
    sizes = value.type().sizes()
    if sizes is None:
        raise ValueError(f"the trace does not tell the shape of {value.debugName()}")
    return list(sizes)


def _items(value: Any) -> list[Any]:
    return list(value.node().inputs())


def _is_list(value: Any) -> bool:
    return bool(value.type().kind() == "ListType")


RNN_OP_HANDLES: dict[str, Handle | None] = {
    **{f"aten::{kind}": _layer_handle(kind) for kind in GATES},
    **{f"aten::{kind}_cell": _cell_handle(kind) for kind in GATES},
    # Packing and unpacking copy; None tells fvcore that an operator is free.
    "aten::_pack_padded_sequence": None,
    "aten::_pad_packed_sequence": None,
}
