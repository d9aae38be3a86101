"""A speaker classifier on packed utterances: run it with ``rnncost report rnncost/examples/vowels.py``.

270 utterances of 7 to 26 steps ("Japanese Vowels", see ``data/README.md``) go through a
bidirectional LSTM in file order, in batches of 30. They are packed, so that the LSTM runs the
4,274 real steps instead of the 5,880 cells of the padded batches.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

_DATA = Path(__file__).with_name("data") / "japanese_vowels.npz"
_BATCH_SIZE = 30


class SpeakerClassifier(nn.Module):
    """Scores the nine speakers from the final hidden states of both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(12, 64, num_layers=2, batch_first=True, bidirectional=True)
        self.score = nn.Linear(2 * 64, 9)

    def forward(self, utterances: PackedSequence) -> Tensor:
        """Scores of shape ``(batch, 9)``."""
        _, (hidden, _) = self.rnn(utterances)
        last_layer = torch.cat([hidden[-2], hidden[-1]], dim=1)
        scores: Tensor = self.score(last_layer)
        return scores


def read_utterances() -> list[Tensor]:
    """The 270 training utterances, each of shape ``(steps, 12)``."""
    with np.load(_DATA) as data:
        values = torch.from_numpy(data["train_values"])
        return list(torch.split(values, data["train_lengths"].tolist()))


def build() -> tuple[nn.Module, list[PackedSequence]]:
    """The model and its nine batches."""
    utterances = read_utterances()
    batches = [
        pack_sequence(utterances[start : start + _BATCH_SIZE], enforce_sorted=False)
        for start in range(0, len(utterances), _BATCH_SIZE)
    ]
    return SpeakerClassifier(), batches
