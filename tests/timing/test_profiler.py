"""Profiles: complete, on the same data, and without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import rnncost
from rnncost.cli.main import main
from rnncost.errors import LengthsError, UnsupportedModuleError
from rnncost.reporting.timing import LayoutTiming
from rnncost.timing.conditions import kernel_family, peak_bytes
from rnncost.timing.layer_profile import best_layout
from tests.builders import packed_batch, padded_batch

LENGTHS = [9, 2, 7, 4]
pytestmark = pytest.mark.filterwarnings("ignore::rnncost.errors.NoisyTimingWarning")


@pytest.mark.parametrize("backward", [False, True])
def test_every_layout_of_every_layer(backward: bool) -> None:
    model = nn.ModuleDict({"a": nn.LSTM(3, 4, bidirectional=True), "b": nn.GRU(3, 4), "cell": nn.GRUCell(3, 4)})
    report = rnncost.profile(model, LENGTHS, budget_s=0.2, backward=backward)
    assert [layer.name for layer in report.layers] == ["a", "b", "cell"]
    for layer in report.layers[:2]:
        names = [timing.layout for timing in layer.timings]
        assert names == ["padded", "packed", "packed+packing", "bucketed(2)", "bucketed(4)", "split"]
        by_name = {timing.layout: timing for timing in layer.timings}
        assert by_name["padded"].ratio_to_padded == 1.0
        for timing in layer.timings:
            assert timing.total_s > 0
            assert (timing.backward_s is not None) is backward
            assert timing.ratio_low <= timing.ratio_to_padded <= timing.ratio_high
            assert timing.peak_bytes
            assert timing.flops_per_s
        assert (by_name["padded"].exact, by_name["packed"].exact, by_name["split"].exact) == (False, True, True)
        assert sum(by_name["split"].groups) == 4
        assert by_name["split"].predicted_s is not None
        assert layer.best_layout in {"packed", "bucketed(2)", "bucketed(4)", "split"}
        assert layer.conditions is not None
        assert (layer.conditions.sequences, layer.conditions.steps, layer.conditions.rows) == (4, 9, 22)
    assert report.layers[0].conditions is not None
    assert report.layers[0].conditions.kernels == {"padded": "oneDNN", "packed": "native"}
    assert not report.layers[2].timings


def test_nothing_is_disturbed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.GRU(3, 4, 2, dropout=0.5)
    calls: list[int] = []
    module.register_forward_hook(lambda *_: calls.append(1))
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    weights, state = [weight.clone() for weight in module.parameters()], torch.random.get_rng_state()
    report = rnncost.profile(module, LENGTHS, budget_s=0.1)
    assert calls == []
    assert module.training
    assert torch.equal(torch.random.get_rng_state(), state)
    for before, after in zip(weights, module.parameters(), strict=True):
        assert torch.equal(before, after)
        assert after.grad is not None
        assert bool((after.grad == 1).all())
    report.save(tmp_path / "timed.json")
    assert rnncost.CostReport.load(tmp_path / "timed.json") == report


def test_what_cannot_be_profiled() -> None:
    with pytest.raises(UnsupportedModuleError, match=r"Linear holds no nn\.RNN"):
        rnncost.profile(nn.Linear(1, 1), [1])
    with pytest.raises(LengthsError):
        rnncost.profile(nn.GRU(1, 1), [0])
    with pytest.raises(LengthsError, match="no layout is called 'sorted'"):
        rnncost.profile(nn.GRU(1, 1), [2, 1], layouts=["sorted"])


def test_kernel_families() -> None:
    lstm, batch = nn.LSTM(3, 4), padded_batch([5, 2], 3)
    assert kernel_family(lambda: lstm(batch)) == "oneDNN"
    assert kernel_family(lambda: lstm(packed_batch([5, 2], 3))) == "native"
    assert kernel_family(lambda: nn.GRU(3, 4)(batch)) == "native"


def test_memory_of_a_linear_layer_by_hand() -> None:
    layer, x = nn.Linear(3, 4), torch.zeros(5, 3)
    # The input, saved for the weight's gradient, is 60 bytes; the output 80.
    assert peak_bytes(lambda: (layer(x),), torch.device("cpu"), x) == 60 + 80


def layout(name: str, ratio: float, *, exact: bool = True) -> LayoutTiming:
    return LayoutTiming(
        layout=name,
        exact=exact,
        forward_s=1,
        backward_s=None,
        total_s=1,
        ratio_to_padded=ratio,
        ratio_low=ratio,
        ratio_high=ratio,
        verdict="unclear",
    )


def test_the_best_layout_is_exact_and_pays_for_packing() -> None:
    padded, packed = layout("padded", 1.0, exact=False), layout("packed", 0.5)
    with_packing, split = layout("packed+packing", 0.8), layout("split", 0.7)
    assert best_layout([padded, packed, with_packing, split]) == "split"
    assert best_layout([padded, packed, with_packing]) == "packed"
    assert best_layout([padded, packed]) == "packed"
    assert best_layout([padded]) is None


def test_on_the_command_line() -> None:
    vowels = Path(rnncost.__file__).parent / "examples" / "vowels.py"
    result = CliRunner().invoke(main, ["report", str(vowels), "--profile", "--budget", "1"], catch_exceptions=False)
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "rnn: time of forward on" in text
    assert "Fastest with the results of a packed run" in text
    refused = CliRunner().invoke(main, ["report", "lstm:3x4", "--lengths", "3,1", "--profile"])
    assert refused.exit_code == 2
    assert "has no weights to run" in refused.stderr
