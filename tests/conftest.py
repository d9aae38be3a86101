from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings
from torch.nn.modules import module as torch_module

import tests.tracked_modules as tracked_modules

# Shared machines: how long an example takes says nothing about the code.
settings.register_profile("rnncost", deadline=None, print_blob=True)
settings.load_profile("rnncost")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _no_hook_left() -> Iterator[None]:
    """Fails any test that leaves a hook of rnncost's on a module or in torch."""
    with tracked_modules.remember_hooked() as hooked:
        yield
    assert not torch_module._global_forward_hooks
    assert not torch_module._global_forward_pre_hooks
    for module in hooked:
        assert tracked_modules.own_hooks(module) == []
        assert "__getstate__" not in vars(module)
