"""Profiles: complete, on the same data, and without a trace."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.flop_counter import FlopCounterMode

import rnncost
from rnncost.cli.main import main
from rnncost.cli.progress import time_bar
from rnncost.errors import DeviceError, LengthsError, UnitError, UnsupportedModuleError
from rnncost.reporting.notes import notes
from rnncost.reporting.timing import LayoutTiming
from rnncost.timing.clock import FakeClock
from rnncost.timing.conditions import kernel_family, peak_bytes
from rnncost.timing.layer_profile import LayerProfile, best_layout
from rnncost.timing.layouts import Padded
from rnncost.timing.profiler import profile_layers
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


def test_weights_stay_also_where_a_hook_trains_them() -> None:
    module = nn.LSTM(3, 4)
    before = [weight.clone() for weight in module.parameters()]

    def train(weight: torch.Tensor) -> None:
        weight.data.add_(1)

    for weight in module.parameters():
        weight.register_post_accumulate_grad_hook(train)
    rnncost.profile(module, LENGTHS, budget_s=0.1)
    assert all(torch.equal(one, other) for one, other in zip(before, module.parameters(), strict=True))


@pytest.mark.parametrize("kind", ["weight_norm", "frozen", "inference mode", "meta default"])
def test_layers_of_every_condition(kind: str) -> None:
    module: nn.Module = nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True, proj_size=2)
    if kind == "weight_norm":
        module = weight_norm(module, "weight_hh_l0")
        module(torch.zeros(1, 1, 3))
    if kind == "frozen":
        module.requires_grad_(False)
    mode: Any = {"inference mode": torch.inference_mode, "meta default": lambda: torch.device("meta")}.get(kind)
    with contextlib.nullcontext() if mode is None else mode():
        report = rnncost.profile(module, LENGTHS, budget_s=0.1)
    conditions = report.layers[0].conditions
    assert conditions is not None
    assert conditions.backward is (kind != "frozen")
    assert report.layers[0].timings


def test_a_profile_runs_a_few_of_the_batches_that_a_layer_saw() -> None:
    torch.manual_seed(0)
    module = nn.GRU(3, 4)
    seen = [[9, 2, 7], [4, 4], [6, 5, 3, 1], [2, 1], [8, 8, 8], [1]]
    with rnncost.CostTracker(module) as tracker:
        for lengths in seen:
            module(packed_batch(lengths, 3))
    told: list[tuple[str, float]] = []
    layer = profile_layers(
        module, tracker.report, budget_s=0.3, progress=lambda name, done: told.append((name, done))
    ).layers[0]
    sampled = [sample.shape.length_counts for sample in tracker.report.layers[0].samples[:4]]
    shapes = [[length for length, number in counts or () for _ in range(number)] for counts in sampled]
    assert all(shape in [sorted(lengths, reverse=True) for lengths in seen] for shape in shapes)
    conditions = layer.conditions
    assert conditions is not None
    assert (conditions.batches, conditions.sequences) == (4, sum(map(len, shapes)))
    assert conditions.rows == sum(map(sum, shapes))
    assert conditions.padded_rows == sum(len(shape) * max(shape) for shape in shapes)
    by_name = {timing.layout: timing for timing in layer.timings}
    assert by_name["padded"].rows == conditions.padded_rows
    assert by_name["packed"].rows == conditions.rows
    assert sum(by_name["split"].groups) == sum(by_name["bucketed(2)"].groups) == conditions.sequences
    # Two groups of each batch that has two sequences, one of the others.
    assert len(by_name["bucketed(2)"].groups) == sum(min(2, len(shape)) for shape in shapes)
    flops = {name: timing.flops_per_s * timing.total_s for name, timing in by_name.items() if timing.flops_per_s}
    assert flops["padded"] / flops["packed"] == pytest.approx(conditions.padded_rows / conditions.rows, rel=0.2)
    assert {name for name, _ in told} == {"GRU"}
    assert 0 <= told[0][1] <= told[-1][1] <= 1
    assert told == sorted(told)


@pytest.mark.parametrize("kind", ["autocast", "anomaly", "dispatch"])
def test_modes_of_the_caller_are_not_timed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[Any] = set()
    padded = Padded.run

    def run(layout: Padded) -> tuple[torch.Tensor, torch.Tensor]:
        output, hidden = padded(layout)
        seen.add((output.dtype, torch.is_anomaly_enabled()))
        return output, hidden

    monkeypatch.setattr(Padded, "run", run)
    counter = FlopCounterMode(display=False)
    # Anomaly detection is on as soon as it is made, so none is made but the one that is asked for.
    modes: dict[str, Callable[[], Any]] = {
        "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
        "dispatch": lambda: counter,
    }
    with modes[kind]():
        rnncost.profile(nn.LSTM(16, 16), LENGTHS, layouts=["packed"], budget_s=0.1)
    assert seen == {(torch.float32, False)}
    assert counter.get_total_flops() == 0


def test_a_budget_that_is_spent_leaves_the_cost_model_one_round() -> None:
    # The model: padded, groups of 1 and 2 sequences at 2 and 4 steps, cuts in 1 and 2: 7 calls, each run to
    # warm up and once more. Two layouts, forward and total: 4 calls, each run to warm up and three times more.
    clock = FakeClock([1.0] * (7 * 2 + 4 * 4))
    module = nn.LSTM(3, 4)
    run = LayerProfile(module, [[4, 2]], backward=True, clock=clock)
    layer = rnncost.estimate(module, [4, 2]).layers[0]
    assert [timing.layout for timing in run.timed(layer, layouts=["split"], budget_s=1e-9).timings] == [
        "padded",
        "split",
    ]
    with pytest.raises(StopIteration):
        clock.time(lambda: None)


def test_an_interrupt_of_the_cost_model_ends_the_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> tuple[torch.Tensor, torch.Tensor]:
        raise KeyboardInterrupt

    monkeypatch.setattr("rnncost.timing.group_cost._Group.run", interrupted)
    report = rnncost.profile(nn.ModuleDict({"a": nn.GRU(3, 4), "b": nn.GRU(3, 4)}), LENGTHS, budget_s=0.1)
    assert [layer.untimed for layer in report.layers] == ["interrupted", "interrupted"]
    assert not any(layer.timings for layer in report.layers)


def test_a_bar_is_drawn_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with time_bar() as progress:
        assert progress is None
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("rnncost.cli.progress._REDRAWN_AFTER_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with time_bar() as progress:
        assert progress is not None
        progress("encoder\x1b[31m.rnn", 0.25)
        progress("encoder.rnn", 0.5)
    assert "timing encoder" in terminal.getvalue()
    assert "\x1b[31m.rnn" not in terminal.getvalue()


def test_no_tracker_counts_a_profile() -> None:
    module = nn.LSTM(3, 4)
    with rnncost.CostTracker(module, verify=True) as bound, rnncost.CostTracker(verify=True) as everywhere:
        rnncost.profile(module, LENGTHS, budget_s=0.1)
    assert bound.report.layers[0].tally.calls == 0
    assert [len(bound.report.layers), len(everywhere.report.layers)] == [1, 0]


def test_a_layer_that_cannot_be_timed_says_why() -> None:
    model = nn.ModuleDict({"a": nn.GRU(3, 4), "cell": nn.GRUCell(3, 4)})
    with rnncost.CostTracker(model) as tracker:
        model["a"](torch.zeros(5, 2, 3))
    report = profile_layers(model, tracker.report, budget_s=0.1)
    assert "saw no batch of known lengths" in report.layers[0].untimed
    assert "a is not timed" in " ".join(notes(report))


def test_an_interrupt_keeps_the_layers_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.ModuleDict({"a": nn.GRU(3, 4), "b": nn.GRU(3, 4), "c": nn.GRU(3, 4)})
    original = LayerProfile.timed

    def interrupted(self: LayerProfile, layer: rnncost.LayerCost, **options: Any) -> rnncost.LayerCost:
        if layer.name == "b":
            raise KeyboardInterrupt
        return original(self, layer, **options)

    monkeypatch.setattr(LayerProfile, "timed", interrupted)
    report = rnncost.profile(model, LENGTHS, budget_s=0.1)
    assert [(bool(layer.timings), layer.untimed) for layer in report.layers] == [
        (True, ""),
        (False, "interrupted"),
        (False, "interrupted"),
    ]


def test_a_spent_budget_leaves_the_last_layers_untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.ModuleDict({name: nn.GRU(3, 4) for name in "abc"})

    def slow(self: LayerProfile, layer: rnncost.LayerCost, **options: Any) -> rnncost.LayerCost:
        time.sleep(0.2)
        return layer

    monkeypatch.setattr(LayerProfile, "timed", slow)
    with rnncost.CostTracker(model) as tracker:
        for layer in model.values():
            layer(packed_batch(LENGTHS, 3))
    report = profile_layers(model, tracker.report, budget_s=0.05)
    # The first is timed whatever the budget; it takes longer than the three together were given.
    assert [layer.untimed for layer in report.layers] == ["", *["the budget was spent before it; give more"] * 2]


def test_another_model_is_not_timed_under_the_name_of_the_first() -> None:
    small, large = nn.ModuleDict({"rnn": nn.GRU(3, 4)}), nn.ModuleDict({"rnn": nn.GRU(3, 400)})
    with rnncost.CostTracker(small) as tracker:
        small["rnn"](packed_batch(LENGTHS, 3))
    report = profile_layers(large, tracker.report, budget_s=0.1)
    assert report.layers[0].untimed == "the model's layer of this name is another one, GRU 3x400"
    assert not report.layers[0].timings


@pytest.mark.parametrize("budget_s", [0, -1, float("nan"), float("inf"), "x"])
def test_budgets_that_cannot_be(budget_s: Any) -> None:
    with pytest.raises(UnitError, match="budget_s is"):
        rnncost.profile(nn.GRU(1, 1), [1], budget_s=budget_s)


def test_what_cannot_be_profiled() -> None:
    with pytest.raises(UnsupportedModuleError, match="the model is a str"):
        rnncost.profile("lstm:3x4", [1])  # type: ignore[arg-type]
    with pytest.raises(LengthsError, match="layouts is 'split'; give a list"):
        rnncost.profile(nn.GRU(1, 1), [1], layouts="split")
    for device in ("meta", "nowhere", *(["cuda"] if not torch.cuda.is_available() else [])):
        with pytest.raises(DeviceError, match=device):
            rnncost.profile(nn.GRU(1, 1), [1], device=device)
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
        rows=1,
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
    command = ["report", "missing.py", "--profile", "--device", "nowhere"]
    nowhere = CliRunner().invoke(main, command)
    assert (nowhere.exit_code, "device 'nowhere' cannot be used" in nowhere.stderr) == (2, True)
    assert CliRunner().invoke(main, ["report", str(vowels), "--device", "cpu"]).exit_code == 2
    refused = CliRunner().invoke(main, ["report", "lstm:3x4", "--lengths", "3,1", "--profile"])
    assert refused.exit_code == 2
    assert "has no weights to run" in refused.stderr
