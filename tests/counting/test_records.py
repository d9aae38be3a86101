from __future__ import annotations

import pytest

from rnncost.counting import OpCount, RnnSpec
from rnncost.errors import SpecError


def test_opcounts_add_subtract_and_scale() -> None:
    one = OpCount(
        matmul_mults=1, matmul_adds=2, bias_adds=3, gate_mults=4, gate_adds=5, accumulate_adds=6, activations=7
    )
    assert (one.mults, one.adds, one.macs, one.flops) == (1 + 4, 2 + 3 + 5 + 6, 1, 2)
    assert one + one == one * 2 == 2 * one
    assert one - one == OpCount()
    assert (OpCount() - one).mults == -5


def test_layers_read_all_directions_below() -> None:
    spec = RnnSpec(kind="lstm", input_size=5, hidden_size=4, num_layers=3, bidirectional=True, proj_size=2)
    assert spec.layer_input_sizes == (5, 4, 4)
    assert (spec.gates, spec.directions, spec.output_size) == (4, 2, 2)


def test_a_spec_is_written_in_the_fields_terms() -> None:
    assert str(RnnSpec(kind="lstm", input_size=12, hidden_size=64, num_layers=2, bidirectional=True)) == (
        "LSTM 12x64x2 bi"
    )
    assert str(RnnSpec(kind="rnn_tanh", input_size=1, hidden_size=2, bias=False)) == "RNN-tanh 1x2 no bias"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "elman"}, "kind is 'elman'; use one of"),
        ({"input_size": 0}, "input_size is 0; it must be at least 1"),
        ({"hidden_size": -1}, "hidden_size is -1"),
        ({"num_layers": 0}, "num_layers is 0"),
        ({"proj_size": 3}, "proj_size is 3"),
        ({"kind": "gru", "proj_size": 1}, "only an LSTM can have a projection"),
    ],
)
def test_sizes_that_no_module_has(fields: dict[str, object], message: str) -> None:
    sizes: dict[str, object] = {"kind": "lstm", "input_size": 2, "hidden_size": 3, **fields}
    with pytest.raises(SpecError, match=message):
        RnnSpec(**sizes)  # type: ignore[arg-type]
