"""Copies made inside the context carry nothing of rnncost."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rnncost
from tests.tracking.models import Holder


def saved_and_loaded(model: nn.Module) -> Any:
    stream = io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=False)


def pickled(model: nn.Module) -> Any:
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("make_copy", [copy.deepcopy, pickled, saved_and_loaded])
def test_a_copy_is_as_it_would_be_without_rnncost(make_copy: Any) -> None:
    model = Holder(nn.LSTM(2, 3))
    x = torch.randn(4, 2, 2)
    with rnncost.CostTracker(model) as outer, rnncost.CostTracker(model):
        made = make_copy(model)
        made(x)
        assert outer.report.layers[0].tally.calls == 0
        assert not made.rnn._forward_hooks
        assert not made.rnn._forward_hooks_with_kwargs
        assert vars(made.rnn).keys() == vars(copy.deepcopy(nn.LSTM(2, 3))).keys()
        assert torch.equal(made(x), model(x))
        assert outer.report.layers[0].tally.calls == 1


def test_hooks_of_the_users_own_are_copied_and_kept() -> None:
    model = nn.GRU(2, 3)
    handle = model.register_forward_hook(_users_hook)
    with rnncost.CostTracker(model):
        made = copy.deepcopy(model)
        handle.remove()
        second = model.register_forward_hook(_users_hook)
    assert list(made._forward_hooks.values()) == [_users_hook]
    assert list(model._forward_hooks.values()) == [_users_hook]
    second.remove()


class CopiesItself(nn.GRU):
    """Copies ``__dict__`` itself, hooks and all, as torch's parametrised modules do."""

    def __deepcopy__(self, memo: dict[int, Any]) -> CopiesItself:
        made = self.__new__(type(self))
        memo[id(self)] = made
        made.__dict__ = copy.deepcopy(self.__dict__, memo)
        return made


def test_a_module_that_copies_itself_is_not_tracked_either() -> None:
    model = CopiesItself(2, 3)
    x = torch.randn(4, 2, 2)
    with rnncost.CostTracker(model) as tracker:
        made = copy.deepcopy(model)
        assert torch.equal(made(x)[0], model(x)[0])
        again = copy.deepcopy(made)
        again(x)
    assert tracker.report.layers[0].tally.calls == 1


def test_a_saved_model_loads_where_rnncost_is_missing(tmp_path: Path) -> None:
    model = nn.Sequential(nn.LSTM(2, 3))
    with rnncost.CostTracker(model):
        torch.save(model, tmp_path / "model.pt")
    code = (
        "import sys; sys.modules['rnncost'] = None\n"
        "import torch\n"
        f"model = torch.load({str(tmp_path / 'model.pt')!r}, weights_only=False)\n"
        "model(torch.zeros(4, 2, 2))\n"
        "print(len(model[0]._forward_hooks))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


def _users_hook(module: nn.Module, args: Any, output: Any) -> None:
    pass
