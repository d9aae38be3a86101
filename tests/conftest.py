from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings
from torch.nn.modules import module as torch_module

import tests.tracked_modules as tracked_modules
from rnncost.tracking.hooks import Hook

pytest_plugins = ["pytester"]

# Shared machines: how long an example takes says nothing about the code.
settings.register_profile("rnncost", deadline=None, print_blob=True)
settings.load_profile("rnncost")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Fails any test after which a hook or a mode of rnncost's is still in place, anywhere."""
    before = _global_state()
    with tracked_modules.remember_hooked() as hooked:
        yield
    assert _global_state() == before
    for module, keys in hooked:
        left = tracked_modules.hook_keys(module)
        assert [hook for hook in module._forward_hooks.values() if isinstance(hook, Hook)] == []
        assert all(left[place] <= {*keys[place], *module._forward_hooks, *module._forward_pre_hooks} for place in left)
        assert "__getstate__" not in vars(module)


def _global_state() -> dict[str, object]:
    dictionaries = {name: set(value) for name, value in vars(torch_module).items() if name.startswith("_global_f")}
    return {**dictionaries, "modes": torch._C._len_torch_function_stack(), "mkldnn": torch._C._get_mkldnn_enabled()}
