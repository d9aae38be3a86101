"""The layouts of recurrent layers on a device, case after case until the time is up."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence

import msgspec
import torch
from torch import nn

import rnncost
from rnncost.reporting.layer import LayerCost
from tests.gpu import wall

STEPS = 100
KINDS = {"lstm": nn.LSTM, "gru": nn.GRU}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A layer, as wide as its input, and a batch for it.

    Attributes:
        kind: ``lstm`` or ``gru``.
        hidden: units, and width of the input.
        sequences: B.
        lengths: ``uniform`` on 1 to T, or ``one long`` of T and the rest of a tenth.
        dtype: ``float32`` or ``float16``.
        backward: whether the backward is timed too.
        steps: T.
    """

    kind: str
    hidden: int
    sequences: int
    lengths: str
    dtype: str
    backward: bool
    steps: int = STEPS

    def drawn_lengths(self) -> list[int]:
        """Steps of each sequence; the first is of T."""
        if self.lengths == "one long":
            return [self.steps] + [max(1, self.steps // 10)] * (self.sequences - 1)
        draw = random.Random(self.sequences)
        return [self.steps] + [draw.randint(1, self.steps) for _ in range(self.sequences - 1)]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a case.

    Attributes:
        case: what was to be timed.
        layer: its timings; ``None`` where it was not run or failed.
        wall_ratio: packed over padded by a loop of :mod:`tests.gpu.wall`, to hold beside the profile's.
        error: why it failed; empty where it did not.
        wall_s: seconds that it took, all told.
    """

    case: Case
    layer: LayerCost | None = None
    wall_ratio: float | None = None
    error: str = ""
    wall_s: float = 0.0


def all_cases(dtypes: Sequence[str]) -> list[Case]:
    """Small layers first, so that the largest are what a short budget leaves out."""
    layers = [("lstm", 32), ("lstm", 256), ("gru", 256), ("lstm", 512), ("gru", 1024)]
    rest = itertools.product((8, 32, 128), ("uniform", "one long"), dtypes, (False, True))
    return [
        Case(kind=kind, hidden=hidden, sequences=sequences, lengths=lengths, dtype=dtype, backward=backward)
        for (kind, hidden), (sequences, lengths, dtype, backward) in itertools.product(layers, rest)
    ]


def run_cases(
    cases: Sequence[Case],
    *,
    device: torch.device,
    deadline: float,
    now: Callable[[], float] = time.monotonic,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Row]:
    """Profiles each case in an equal share of the time that is left.

    Args:
        cases: in the order in which they are run.
        device: where.
        deadline: no case is begun after this moment of ``now``.
        now: seconds since some moment.
        tell: takes a line after each case.
    """
    rows: list[Row] = []
    for index, case in enumerate(cases):
        left = deadline - now()
        if left <= 0:
            rows.append(Row(case=case))
            continue
        rows.append(_run(case, device=device, budget_s=left / (len(cases) - index), now=now))
        layer = rows[-1].layer
        tell(f"{case} {rows[-1].error or (layer and layer.best_layout)}")
    return rows


def _run(case: Case, *, device: torch.device, budget_s: float, now: Callable[[], float]) -> Row:
    start = now()
    torch.manual_seed(0)
    try:
        rnn = KINDS[case.kind](case.hidden, case.hidden).to(getattr(torch, case.dtype))
        report = rnncost.profile(rnn, case.drawn_lengths(), device=device, backward=case.backward, budget_s=budget_s)
        wall_ratio = wall.packed_over_padded(rnn.to(device), case.drawn_lengths(), backward=case.backward)
    except Exception as error:
        # A case that a device refuses, or has no memory for, is a finding; the others are still run.
        text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return Row(case=case, error=text, wall_s=now() - start)
    return Row(case=case, layer=report.layers[0], wall_ratio=wall_ratio, wall_s=now() - start)
