"""Runs other people's recurrent models under rnncost, in an environment of their own.

Run it with ``python -m tests.benchmarks.real_models``; it writes ``reports/real_models.md`` and
``reports/real_models/*.json``, which ``python -m tests.benchmarks.gallery`` draws. The models are in
``tests/benchmarks/real_model_cases.py``.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import random
import subprocess
import tempfile
import venv
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

import rnncost
from rnncost.errors import UncountedModuleWarning
from rnncost.reporting.costs import Costs
from rnncost.units import format_fraction
from tests.oracle import native_kernels

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "reports" / "real_models.md"
LIBRARIES = {
    "stanza": "1.15.0",
    "flair": "0.15.1",
    "torch_geometric": "2.8.1",
    "silero-vad": "6.2.3",
    "sru": "2.6.0",
    "torchrl": "0.11.1",
}
# It asks for torchaudio, which only reading audio files needs.
_WITHOUT_DEPENDENCIES = "silero-vad"
_ELSEWHERE = "(elsewhere)"
_COMMAND = "python -m tests.benchmarks.real_models"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "Scripts" if os.name == "nt" else "bin", "python")
        pins = {name: f"{name}=={version}" for name, version in LIBRARIES.items()}
        alone = pins.pop(_WITHOUT_DEPENDENCIES)
        _pip(python, "-e", ".", *pins.values())
        _pip(python, "--no-deps", alone)
        raise SystemExit(subprocess.run([python, "-m", "tests.benchmarks.real_model_cases"], cwd=ROOT).returncode)


def _pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "-c", "constraints.txt", *arguments]
    subprocess.run(command, cwd=ROOT, check=True)


class Case(NamedTuple):
    """A model and one call of it.

    Attributes:
        name: names the row and the saved report.
        model: what is tracked.
        run: runs it on one batch and returns a loss.
        real_rows: the real steps that all its recurrent calls together were given, from the data.
        training: run the backward as well.
        options: what the tracker is told beside the model.
        uncounted: modules that the report has to name as missing.
        shows: what the row means.
    """

    name: str
    model: nn.Module
    run: Callable[[], Tensor]
    shows: str
    real_rows: int | None
    training: bool = True
    options: dict[str, Any] = {}  # noqa: RUF012
    uncounted: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """What was counted for a case, what torch dispatched (MACs), and what is wrong."""

    case: Case
    report: rnncost.CostReport
    forward_macs: int
    backward_macs: int
    faults: tuple[str, ...]


def report_on(builds: Iterable[Callable[[], Case]]) -> None:
    """Measures the cases and writes the reports; exits with 1 where anything differs."""
    outcomes = [_measure(build) for build in builds]
    OUTPUT.with_suffix("").mkdir(exist_ok=True)
    for outcome in outcomes:
        outcome.report.save(OUTPUT.with_suffix("") / f"{outcome.case.name}.json")
    OUTPUT.write_text(_render(outcomes))
    print(OUTPUT.read_text())
    faults = [f"{outcome.case.name}: {fault}" for outcome in outcomes for fault in outcome.faults]
    if faults:
        raise SystemExit("\n".join(faults))


def _measure(build: Callable[[], Case]) -> Outcome:
    """Tracks a case as a user would, then repeats it under torch's own counters."""
    torch.manual_seed(0)
    random.seed(0)
    case = build()
    report = _track(case)
    names = {layer.name for layer in report.layers}
    forward = _dispatched_forward(case, names)
    backward = _dispatched_backward(case, names) if case.training else Counter()
    return Outcome(
        case=case,
        report=report,
        forward_macs=forward.total(),
        backward_macs=backward.total(),
        faults=(
            *_differences("forward", ((layer.name, layer.forward) for layer in report.layers), forward),
            *_differences("backward", ((layer.name, layer.backward) for layer in report.layers), backward),
            *_surprises(case, report),
        ),
    )


def _track(case: Case) -> rnncost.CostReport:
    case.model.train(case.training)
    with warnings.catch_warnings(), torch.set_grad_enabled(case.training):
        warnings.simplefilter("ignore", UncountedModuleWarning)
        with rnncost.CostTracker(case.model, verify=True, backward=case.training, **case.options) as tracker:
            loss = case.run()
            if case.training:
                loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
    return msgspec.structs.replace(tracker.report, commands=(_COMMAND,))


def _dispatched_forward(case: Case, names: set[str]) -> Counter[str]:
    whole = _Whole(case)
    with native_kernels(), torch.no_grad(), FlopCounterMode(display=False) as counter:
        whole()
    counts = counter.get_flop_counts()
    own = dict(case.model.named_modules())
    macs = Counter({name: _macs(counts["_Whole.model" + f".{name}" * (name in own)]) for name in names})
    if not names:  # scripted: torch sees one module, and only its convolutions are known not to be recurrent
        macs[_ELSEWHERE] = _macs({op: flops for op, flops in counts["Global"].items() if "convolution" not in str(op)})
    return macs


def _dispatched_backward(case: Case, names: Iterable[str]) -> Counter[str]:
    with native_kernels(), _BackwardFlops(case.model, names) as counter:
        case.run().backward()  # type: ignore[no-untyped-call,unused-ignore]
    return Counter({name: flops // 2 for name, flops in counter.flops.items() if name != _ELSEWHERE})


def _macs(flops: Mapping[Any, int]) -> int:
    return sum(flops.values()) // 2


def _differences(way: str, costs: Iterable[tuple[str, Costs]], dispatched: Counter[str]) -> Iterator[str]:
    counted: Counter[str] = Counter()
    for name, cost in costs:
        counted[name] += cost.executed.macs
    for name, macs in counted.items():
        if macs != dispatched[name]:
            yield f"{name}, {way}: {macs:,} MACs counted, {dispatched[name]:,} dispatched"


def _surprises(case: Case, report: rnncost.CostReport) -> Iterator[str]:
    named = tuple(found.name for found in report.uncounted)
    if named != case.uncounted:
        yield f"uncounted are {named}, expected {case.uncounted}"
    if not (named or any(layer.calls for layer in report.layers)):
        yield "no recurrent layer ran"
    if report.verification is None or not report.verification.agrees:
        yield str(report.verification)
    if _rows(report)[2] != case.real_rows:
        yield f"{_rows(report)[2]} real rows, expected {case.real_rows}"


def _rows(report: rnncost.CostReport) -> tuple[int, int, int | None]:
    tallies = [layer.tally for layer in report.layers]
    real = [tally.packed_rows for tally in tallies]
    return (
        sum(tally.rows for tally in tallies),
        sum(tally.padded_rows for tally in tallies),
        None if None in real else sum(rows for rows in real if rows is not None),
    )


def _render(outcomes: Sequence[Outcome]) -> str:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", *LIBRARIES))
    sections = [f"## {each.case.name}\n\n{each.case.shows}\n" for each in outcomes]
    return "\n".join(
        [_HEADER.format(rnncost=rnncost.__version__, versions=versions), *map(_row, outcomes), "", *sections]
    )


def _row(outcome: Outcome) -> str:
    report = outcome.report
    rows = " / ".join("?" if count is None else f"{count:,}" for count in _rows(report))
    verdict = "DIFFERS: " + "; ".join(outcome.faults) if outcome.faults else "exact"
    if report.uncounted and not outcome.faults:
        verdict = f"{len(report.uncounted)} layers named as uncounted"
    counted = [(report.forward.executed.macs, outcome.forward_macs)]
    if outcome.case.training:
        counted.append((report.backward.executed.macs, outcome.backward_macs))
    ours, torchs = (" + ".join(f"{pair[side]:,}" for pair in counted) for side in (0, 1))
    layers = "<br>".join(sorted({str(layer.spec) for layer in report.layers})) or "none seen"
    calls = sum(layer.tally.calls for layer in report.layers)
    saved = format_fraction(report.saved_fraction)
    wasted = "?" if report.wasted is None else format_fraction(report.wasted_fraction)
    cells = (outcome.case.name, f"{len(report.layers)}: {layers}", calls, rows, ours, torchs, verdict, saved, wasted)
    return f"| {' | '.join(map(str, cells))} |"


_HEADER = """# Other people's models

Written by `python -m tests.benchmarks.real_models`, which installs the libraries from the package index
into a new environment and runs their models there, unmodified: rnncost {rnncost},
{versions}.

Each model is tracked once with `CostTracker(model, verify=True)`, and `backward=True` where it is trained.
"MACs" are those that rnncost counted, forward + backward; "dispatched" is what torch counts inside the same
modules with oneDNN off: `FlopCounterMode` forward, and backward the flop formulas of `torch.utils.flop_counter`
for the operations of each module's autograd nodes, at two flops a MAC. "exact" means equal, module by module,
without tolerance, and that real rows, where known, are as many as the data has. Saved is a share of the padded
mults, wasted of the executed ones.

| model | recurrent layers | calls | rows executed / padded / real | MACs | dispatched | verdict | saved | wasted |
|---|---|---|---|---|---|---|---|---|"""


class _Whole(nn.Module):
    """Lets FlopCounterMode see the model's modules under their own names, whoever calls them first."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.model = case.model
        self._run = case.run

    def forward(self) -> Tensor:
        return self._run()


class _BackwardFlops(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts flops in a backward for the module whose forward made the node that runs.

    FlopCounterMode cannot tell them apart here: it finds a module's backward by tensors among its
    arguments, and a ``PackedSequence`` is none. Nodes are numbered in the order in which they were made.
    """

    def __init__(self, model: nn.Module, names: Iterable[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops: Counter[str] = Counter()
        self._starts, self._names = [-1], [_ELSEWHERE]
        for name in names:
            module = model.get_submodule(name)
            module.register_forward_pre_hook(functools.partial(self._mark, name))
            module.register_forward_hook(functools.partial(self._mark, _ELSEWHERE))

    def _mark(self, name: str, *_: object) -> None:
        self._starts.append(torch._C._autograd._get_sequence_nr())  # type: ignore[attr-defined,unused-ignore]
        self._names.append(name)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        node = torch._C._current_autograd_node()
        if node is not None and func._overloadpacket in flop_registry:
            flops = flop_registry[func._overloadpacket](*args, **(kwargs or {}), out_val=out)
            self.flops[self._names[bisect_right(self._starts, node._sequence_nr()) - 1]] += flops
        return out


if __name__ == "__main__":
    main()
