"""The counters and the models of ``tests.benchmarks.peers``, and the process that brings them together.

``python -m tests.benchmarks.peer_cases TOOL`` prints a JSON object a line, one for each case. It imports
the tool once and forks for each case, since some tools leave patched functions and hooks behind where
they fail, and since an import takes far longer than a count.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import logging
import multiprocessing
import platform
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.flop_counter import FlopCounterMode

from tests.builders import packed_batch, padded_batch
from tests.oracle import native_kernels

LENGTHS = [40, 5, 31, 12, 18, 3, 22, 9]
TIMEOUT_SECONDS = 60.0
_FEATURES, _HIDDEN, _PROJECTED, _CLASSES = 16, 24, 10, 5

Batch = Any  # a tensor or a PackedSequence
Count = Callable[[nn.Module, Batch], float]


class Tagger(nn.Module):
    """Packs inside its forward, as most models do, and labels each step of the padded output."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(_FEATURES, _HIDDEN, batch_first=True)
        self.head = nn.Linear(_HIDDEN, _CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
        out: Tensor = self.head(pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0])
        return out


class CellLoop(nn.Module):
    """An LSTMCell called once a step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(_FEATURES, _HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        state = None
        for step in x:
            state = self.cell(step, state)
        assert state is not None
        hidden: Tensor = state[0]
        return hidden


def _packed(build: Callable[..., nn.Module], **options: Any) -> Callable[[], tuple[nn.Module, Batch]]:
    return lambda: (build(_FEATURES, _HIDDEN, **options), packed_batch(LENGTHS, _FEATURES))


def _padded(build: Callable[..., nn.Module], **options: Any) -> Callable[[], tuple[nn.Module, Batch]]:
    return lambda: (build(_FEATURES, _HIDDEN, **options), padded_batch(LENGTHS, _FEATURES))


_DEEP: dict[str, Any] = {"num_layers": 2, "bidirectional": True}
CASES: dict[str, Callable[[], tuple[nn.Module, Batch]]] = {
    "LSTM packed": _packed(nn.LSTM),
    "LSTM padded": _padded(nn.LSTM),
    "GRU packed": _packed(nn.GRU),
    "GRU padded": _padded(nn.GRU),
    "RNN packed": _packed(nn.RNN),
    "RNN padded": _padded(nn.RNN),
    "LSTM 2 bi packed": _packed(nn.LSTM, **_DEEP),
    "LSTM 2 bi padded": _padded(nn.LSTM, **_DEEP),
    "LSTM proj packed": _packed(nn.LSTM, proj_size=_PROJECTED),
    "LSTM proj padded": _padded(nn.LSTM, proj_size=_PROJECTED),
    "packs inside + Linear": lambda: (Tagger(), padded_batch(LENGTHS, _FEATURES, batch_first=True)),
    "LSTMCell loop": lambda: (CellLoop(), padded_batch(LENGTHS, _FEATURES)),
}


class _PrintedError(Exception):
    """An exception of which a tool only prints a line."""


class Tool(NamedTuple):
    """A counter: what it calls one MAC (2 where it counts flops), and ``load``, which imports it before it is timed."""

    distribution: str
    per_mac: int
    counts: str
    load: Callable[[], Count]


def _thop() -> Count:
    profile = import_module("thop").profile
    return lambda model, batch: float(profile(model, (batch,), verbose=False)[0])


def _ptflops(backend: str) -> Callable[[], Count]:
    def load() -> Count:
        measure = import_module("ptflops").get_model_complexity_info

        def count(model: nn.Module, batch: Batch) -> float:
            with contextlib.redirect_stdout(io.StringIO()) as said:
                macs, _ = measure(
                    model,
                    (1,),
                    print_per_layer_stat=False,
                    as_strings=False,
                    input_constructor=lambda _: batch,
                    backend=backend,
                )
            if macs is None:  # it prints the exception
                raise _PrintedError(said.getvalue().strip().splitlines()[-1].replace("<class '", "").replace("'>", ""))
            # The default backend gives the mean over what it takes for the batch, the first dimension.
            return float(macs * len(batch) if backend == "pytorch" else macs)

        return count

    return load


def _torchinfo() -> Count:
    summary = import_module("torchinfo").summary

    def count(model: nn.Module, batch: Batch) -> float:
        # It takes a PackedSequence apart among input_data, but not among keywords.
        given = {"input_data": [], "input": batch} if isinstance(batch, PackedSequence) else {"input_data": [batch]}
        return float(summary(model, verbose=0, **given).total_mult_adds)

    return count


def _calflops() -> Count:
    calculate = import_module("calflops").calculate_flops
    options = {"print_results": False, "output_as_string": False}
    return lambda model, batch: float(calculate(model, args=[batch], **options)[0])


def _torchprofile() -> Count:
    profile = import_module("torchprofile").profile_macs
    return lambda model, batch: float(profile(model, (batch,)))


def _fvcore(*, handles: bool) -> Callable[[], Count]:
    def load() -> Count:
        analysis = import_module("fvcore.nn").FlopCountAnalysis
        known = import_module("rnncost.integrations.fvcore").RNN_OP_HANDLES if handles else {}

        def count(model: nn.Module, batch: Batch) -> float:
            flops = analysis(model, (batch,)).set_op_handle(**known)
            return float(flops.unsupported_ops_warnings(False).tracer_warnings("none").total())

        return count

    return load


def _flop_counter(*, formulas: bool = False, native: bool = False) -> Callable[[], Count]:
    def load() -> Count:
        known = import_module("rnncost.integrations.torch_flops").RNN_FLOP_FORMULAS if formulas else None

        def count(model: nn.Module, batch: Batch) -> float:
            kernels = native_kernels() if native else contextlib.nullcontext()
            with kernels, FlopCounterMode(display=False, custom_mapping=known) as counter:
                model(batch)
            return float(counter.get_total_flops())

        return count

    return load


def _tracker() -> Count:
    tracking = import_module("rnncost.tracking.tracker").CostTracker

    def count(model: nn.Module, batch: Batch) -> float:
        with tracking(model) as tracker:
            model(batch)
        return float(tracker.report.executed.macs)

    return count


def _whole_model() -> Count:
    measure = import_module("rnncost.integrations.whole_model").measure_whole_model
    return lambda model, batch: float(measure(model, batch).total_macs)


TRUTH = "dispatched"
_WITH_GATES = "MACs; additions of biases and the arithmetic of gates count as such"
TOOLS = {
    TRUTH: Tool("torch", 2, "", _flop_counter(native=True)),
    "thop": Tool("thop", 1, _WITH_GATES, _thop),
    "ultralytics-thop": Tool("ultralytics-thop", 1, _WITH_GATES, _thop),
    "ptflops": Tool(
        "ptflops", 1, _WITH_GATES + "; a mean over the first dimension, multiplied by it", _ptflops("pytorch")
    ),
    "ptflops, aten": Tool("ptflops", 1, "MACs; additions of biases count as such", _ptflops("aten")),
    "torchinfo": Tool("torchinfo", 1, "MACs: parameters × outputs, so additions of biases count as such", _torchinfo),
    "calflops": Tool(
        "calflops", 2, "flops, two a MAC; biases and gates too (its MACs leave recurrent layers out)", _calflops
    ),
    "torchprofile": Tool("torchprofile", 1, "MACs; elementwise products count as such", _torchprofile),
    "fvcore": Tool("fvcore", 1, "flops, one a MAC", _fvcore(handles=False)),
    "fvcore + RNN_OP_HANDLES": Tool("fvcore", 1, "flops, one a MAC", _fvcore(handles=True)),
    "FlopCounterMode": Tool("torch", 2, "flops, two a MAC", _flop_counter()),
    "FlopCounterMode + RNN_FLOP_FORMULAS": Tool("torch", 2, "flops, two a MAC", _flop_counter(formulas=True)),
    "rnncost, CostTracker": Tool("rnncost", 1, "MACs of recurrent layers alone", _tracker),
    "rnncost, whole model": Tool("rnncost", 1, "MACs, by `measure_whole_model`", _whole_model),
}


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    tool = TOOLS[sys.argv[1]]
    versions = {
        "version": importlib.metadata.version(tool.distribution),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }
    with contextlib.redirect_stdout(io.StringIO()):
        outcomes = _outcomes(tool)
    for case, outcome in zip(CASES, outcomes, strict=True):
        print(json.dumps({"case": case, **outcome, **versions}))


def _outcomes(tool: Tool) -> list[dict[str, Any]]:
    try:
        count = tool.load()
    except Exception as caught:
        return [_outcome(error=_first_line(caught)) for _ in CASES]
    return [_apart(count, case) for case in CASES]


def _apart(count: Count, case: str) -> dict[str, Any]:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(count, case, sender))
    process.start()
    sender.close()
    try:
        if receiver.poll(TIMEOUT_SECONDS):
            outcome: dict[str, Any] = receiver.recv()
            return outcome
        process.kill()
        return _outcome(error=f"no figure after {TIMEOUT_SECONDS:.0f} s")
    except EOFError:
        process.join()
        return _outcome(error=f"exit status {process.exitcode}")
    finally:
        process.join()


def _measure(count: Count, case: str, sender: Connection) -> None:
    torch.manual_seed(0)
    model, batch = CASES[case]()
    model.eval()
    reported, error = None, ""
    start = time.perf_counter()
    try:
        reported = count(model, batch)
    except Exception as caught:
        error = _first_line(caught)
    sender.send(_outcome(reported=reported, error=error, seconds=time.perf_counter() - start))


def _outcome(*, reported: float | None = None, error: str = "", seconds: float | None = None) -> dict[str, Any]:
    return {"reported": reported, "error": error, "seconds": seconds}


def _first_line(error: BaseException) -> str:
    """The first line of what was raised first, where one exception was made of another."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or [""]
    return lines[0] if isinstance(error, _PrintedError) else f"{type(error).__name__}: {lines[0]}"


if __name__ == "__main__":
    main()
