"""The GPU script on the CPU: all of it runs, and its checks can fail."""

from __future__ import annotations

import itertools
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

import rnncost
from rnncost.timing.clock import CpuClock, Lap
from rnncost.timing.layouts import make_layout
from tests.gpu import clocks, counts, run, table, wall
from tests.gpu.check import Check, guarded
from tests.gpu.table import Case

CPU = torch.device("cpu")
CASE = Case(kind="gru", hidden=4, sequences=3, lengths="uniform", dtype="float32", backward=True, steps=6)
OTHER = Case(kind="lstm", hidden=4, sequences=3, lengths="one long", dtype="float32", backward=False, steps=6)
SPECS = tuple(spec for spec in counts.all_specs() if spec.bidirectional and spec.num_layers == 2)
SIZES = run.Sizes(clock_work_s=0.02, hidden=8, specs=SPECS, cases=(CASE, OTHER), table_s=4)


def test_all_of_it_on_the_cpu(tmp_path: Path) -> None:
    status = run.main(["--device", "cpu", "--output", str(tmp_path / "new")], sizes=SIZES)
    found = json.loads((tmp_path / "new" / "gpu.json").read_text())
    outcomes = {check["name"]: check["outcome"] for check in found["checks"]}
    clock = outcomes.pop("clock")  # of this shared machine nothing is promised
    assert status == (0 if clock == "passed" else 1)
    tracker = outcomes.pop(clocks.TRACKER)
    assert tracker in ("passed", "skipped")
    names = ("counts", "exact layouts in float64", "exact layouts in float32", "cases")
    assert outcomes == dict.fromkeys(names, "passed")
    assert found["libraries"]["torch"] == torch.__version__
    assert [row["layer"]["conditions"]["backward"] for row in found["rows"]] == [True, False]
    assert len(found["rows"][0]["layer"]["timings"]) >= 5
    assert all(row["wall_ratio"] > 0 for row in found["rows"])
    page = (tmp_path / "new" / "gpu.md").read_text()
    assert "| counts | passed | 16 cases counted by" in page
    assert "| GRU 4 | 3 | uniform | float32 | forward + backward |" in page
    assert "not run" not in page


def test_what_there_was_no_time_for_and_what_was_warned_about_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warned(*arguments: Any, **options: Any) -> Check:
        warnings.warn("weights are copied (Triggered internally at RNN.cpp:1)", UserWarning, stacklevel=1)
        return Check(name=clocks.TRACKER, outcome="skipped", text="")

    monkeypatch.setattr(clocks, "tracker_check", warned)
    sizes = SIZES._replace(cases=(CASE,), table_s=None)
    status = run.main(["--device", "cpu", "--budget", "0", "--output", str(tmp_path)], sizes=sizes)
    assert status == 1
    page = (tmp_path / "gpu.md").read_text()
    assert "- not run, the time was up: GRU 4, B 3, uniform, float32, forward + backward" in page
    assert "- warned: UserWarning: weights are copied\n" in page
    assert "| cases | failed | 0 of 1 cases timed, 0 raised, 1 not reached |" in page


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run.main(["--output", str(tmp_path)]) == 2
    assert "device 'cuda' cannot be used: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_all_of_it_on_a_gpu(tmp_path: Path) -> None:
    cases = tuple(case for case in table.all_cases(["float32", "float16"]) if case.sequences == 8)[:4]
    sizes = run.Sizes(cases=cases)
    assert run.main(["--budget", "60", "--output", str(tmp_path)], sizes=sizes) == 0


def test_a_clock_that_is_wrong_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(CpuClock):
        def time(self, call: Any) -> Lap:
            return Lap(0.9 * super().time(call).seconds)

    monkeypatch.setattr(clocks, "clock_for", lambda device: Short())
    check = clocks.clock_check(CPU, work_s=0.01, hidden=8, repeats=3)
    assert check.outcome == "failed"
    assert 0.5 < float(str(check.figures["ratio"])) < 0.91


def test_counts_that_differ_are_found_out() -> None:
    spec = counts.all_specs()[0]
    here = counts.count(spec, CPU, packed=True, backward=True)
    assert list(counts.differences(here, here)) == []
    other = counts.count(spec, CPU, packed=False, backward=True)
    assert any(line.startswith("calls is ") for line in counts.differences(here, other))
    assert any(line.startswith("backward is ") for line in counts.differences(here, other))
    unverified = here._replace(verified=False, counter_flops=1)
    assert len(list(counts.differences(here, unverified))) == 2
    unestimated = here._replace(estimated={**here.estimated, "backward": {}})
    assert next(counts.differences(here, unestimated)).startswith("the estimate of backward is {}")


def test_every_kind_of_layer_is_counted_alike() -> None:
    check = counts.counts_check(CPU, counts.all_specs())
    assert (check.outcome, check.figures) == ("passed", {"cases": 56, "differences": 0})


@pytest.mark.parametrize("what", [0.5, math.nan])
def test_a_layout_that_is_not_exact_is_found_out(what: float, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong:
        def __init__(self, *arguments: Any) -> None:
            self._layout = make_layout(*arguments)

        def run(self) -> tuple[torch.Tensor, torch.Tensor]:
            output, hidden = self._layout.run()
            output[0, 0] += what
            return output, hidden

    monkeypatch.setattr(counts, "make_layout", Wrong)
    check = counts.exactness_check(CPU, torch.float64, SPECS)
    assert check.outcome == "failed"
    assert float(str(check.figures["largest_difference"])) >= 0.5


def test_an_error_fails_a_check_and_a_case_but_ends_nothing() -> None:
    def broken() -> Check:
        raise RuntimeError("no kernel\nand more")

    check = guarded("x", broken)
    assert (check.outcome, check.text) == ("failed", "RuntimeError: no kernel (broken)")
    wrong = Case(kind="gru", hidden=4, sequences=0, lengths="uniform", dtype="float1", backward=True)
    rows = table.run_cases([wrong, OTHER], device=CPU, deadline=3.0, now=itertools.count(0, 1.0).__next__)
    assert rows[0].error.startswith("AttributeError: module 'torch' has no attribute 'float1'")
    assert rows[1].error == ""
    assert run._errors(rows).outcome == "failed"


def test_the_cases_and_their_lengths() -> None:
    cases = table.all_cases(["float32", "float16"])
    assert len(cases) == len(set(cases)) == 5 * 3 * 2 * 2 * 2
    for case in cases:
        lengths = case.drawn_lengths()
        assert (len(lengths), max(lengths), min(lengths) >= 1) == (case.sequences, 100, True)
    assert OTHER.drawn_lengths() == [6, 1, 1]


@pytest.mark.parametrize("backward", [False, True])
def test_the_wall_clock_sees_what_is_slow(backward: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rnn = torch.nn.GRU(2, 2)
    original = rnn.forward

    def slow_when_packed(batch: Any) -> Any:
        if not isinstance(batch, torch.Tensor):
            time.sleep(0.02)
        assert torch.is_grad_enabled() == backward
        return original(batch)

    monkeypatch.setattr(rnn, "forward", slow_when_packed)
    assert wall.packed_over_padded(rnn, [3, 1, 2], backward=backward, rounds=3) > 2
    assert (rnn.weight_hh_l0.grad is not None) == backward


@pytest.mark.parametrize("broken", [None, {"run_time": None}, {"forward_calls": 9}, {"backward_s": 1e6}])
def test_the_times_of_a_tracker_are_held_to_the_wall_clock(
    broken: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken is not None:
        real = rnncost.CostReport.run_time.fget  # type: ignore[attr-defined]

        def other(report: rnncost.CostReport) -> Any:
            return None if "run_time" in broken else msgspec.structs.replace(real(report), **broken)

        monkeypatch.setattr(rnncost.CostReport, "run_time", property(other))
    check = clocks.tracker_check(torch.device("cpu"), hidden=4)
    assert check.outcome == ("passed" if broken is None else "failed")
