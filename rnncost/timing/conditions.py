"""What else a timing depends on: device, threads, kernels, memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_FAMILIES = {"mkldnn_rnn_layer": "oneDNN", "_cudnn_rnn": "cuDNN", "miopen_rnn": "MIOpen", "_lstm_mps": "MPS"}


def device_name(device: torch.device) -> str:
    """What the device calls itself: the processor's model and architecture for the CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu_name() if device.type == "cpu" else str(device)


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Model and architecture of the processor, as in ``AMD EPYC x86_64``; the model where Linux tells it."""
    import platform

    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{model} {platform.machine()}".strip()


def library_versions(device: torch.device) -> dict[str, str]:
    """Releases of torch and of the kernel library of the device: cuDNN, or oneDNN on the CPU."""
    versions = {"torch": str(torch.__version__)}
    if device.type == "cuda":
        versions["cuDNN"] = str(torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
    # torch tells its oneDNN's release under the library's former name, in the text of its build alone.
    built_with = re.search(r"(?:MKL-DNN|oneDNN) v([0-9.]+)", torch.__config__.show())
    if device.type == "cpu" and built_with is not None:
        versions["oneDNN"] = built_with[1]
    return versions


def kernel_family(run: Callable[[], object]) -> str:
    """Which recurrent kernels ``run`` dispatches: ``oneDNN``, ``cuDNN``, …, else ``native``."""
    with _Dispatched() as seen:
        run()
    return next((family for name, family in _FAMILIES.items() if name in seen.names), "native")


class _Dispatched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def peak_bytes(run: Callable[[], tuple[Tensor, ...]], device: torch.device, given: Tensor) -> int | None:
    """Memory that a run needs at its peak.

    On CUDA the allocator's own peak. On the CPU the bytes of the input, of the outputs and of
    every storage that autograd saved for the backward, each once: parameters and passing
    intermediates are not among them. ``None`` for other devices.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device) - before)
    if device.type != "cpu":
        return None
    storages: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, torch.nn.Parameter):
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        outputs = run()
        for tensor in (*outputs, given):
            note(tensor)
    return sum(storages.values())
