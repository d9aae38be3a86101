"""Runs of pytest inside a test, on small models whose figures are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

# One row through LSTM(2, 3) is 60 MACs and 69 mults; lengths [5, 2] are 7 rows packed and 10 padded.
MODEL = """
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(2, 3)

    def forward(self, x, lengths=None):
        return self.rnn(x if lengths is None else pack_padded_sequence(x, lengths))[0]


def packed(lengths=(5, 2)):
    return Tagger()(torch.zeros(max(lengths), len(lengths), 2), torch.tensor(lengths))


def padded(zeros=True):
    x = torch.ones(5, 2, 2)
    x[2:, 1] = 0
    return Tagger()(x)


class Plain(Tagger):
    def forward(self, x):
        return self.rnn(x)[0]


def scripted():
    return torch.jit.script(Plain())(torch.zeros(5, 2, 2))
"""
QUIET = ("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:asyncio")

Run = Callable[..., pytest.RunResult]


@pytest.fixture(autouse=True)
def not_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where these are set pytest shows failures in full at its end, once more."""
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Writes ``test_it.py`` and runs pytest with some arguments."""
    pytester.makepyfile(model=MODEL)

    def run(source: str | None, *arguments: str) -> pytest.RunResult:
        if source is not None:
            pytester.makepyfile(test_it="import pytest\nfrom model import *\n\n" + source)
        return pytester.runpytest(*QUIET, *arguments)

    return run
