"""What timing asks of CUDA: with a stand-in for torch.cuda where there is no GPU, and for real where there is one."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rnncost.errors import DeviceError
from rnncost.timing import conditions
from rnncost.timing.clock import EventClock, check_device, clock_for
from rnncost.timing.conditions import cpu_name, device_name, kernel_family, library_versions, peak_bytes

CUDA = torch.device("cuda", 1)
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class FakeCuda:
    """Notes what is asked, of which device; memory goes up in a run, and stays up for the results."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []
        self.allocated, self.peak = 1000, 5000
        self.now = 0.0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        names = ("synchronize", "reset_peak_memory_stats", "memory_allocated", "max_memory_allocated")
        for name in (*names, "get_device_name", "current_stream", "Event"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))

    def synchronize(self, device: Any) -> None:
        self.log.append(("synchronize", device))

    def reset_peak_memory_stats(self, device: Any) -> None:
        self.log.append(("reset", device))
        self.peak = self.allocated

    def memory_allocated(self, device: Any) -> int:
        self.log.append(("allocated", device))
        return self.allocated

    def max_memory_allocated(self, device: Any) -> int:
        self.log.append(("peak", device))
        return self.peak

    def current_stream(self, device: Any) -> str:
        return f"stream of {device}"

    def get_device_name(self, device: Any) -> str:
        return f"GPU of {device}"

    def run(self) -> tuple[Tensor, ...]:
        self.log.append(("run", None))
        self.peak = self.allocated + 700
        self.allocated += 300
        self.now += 250.0
        return ()

    def Event(self, *, enable_timing: bool) -> Any:  # noqa: N802
        assert enable_timing
        fake = self

        class Event:
            def record(self, stream: Any) -> None:
                # Of this device: the process may have another one as its current.
                assert stream == f"stream of {CUDA}"
                self.at = fake.now

            def elapsed_time(self, end: Any) -> float:
                return float(end.at - self.at)

        return Event()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    cuda = FakeCuda()
    cuda.install(monkeypatch)
    return cuda


def test_peak_bytes_are_those_of_the_run_alone(fake: FakeCuda) -> None:
    assert peak_bytes(fake.run, CUDA, torch.zeros(1)) == 700
    # Earlier work ends before the peak is reset, and the run before it is read; all of this device.
    names = ["synchronize", "reset", "allocated", "run", "synchronize", "peak"]
    assert [name for name, _ in fake.log] == names
    assert {device for name, device in fake.log if name != "run"} == {CUDA}


def test_devices_without_an_allocator_to_ask_have_no_peak(fake: FakeCuda) -> None:
    assert peak_bytes(fake.run, torch.device("mps"), torch.zeros(1)) is None
    assert fake.log == []


def test_the_clock_of_a_gpu_waits_for_that_gpu_and_no_other(fake: FakeCuda) -> None:
    clock = clock_for(CUDA)
    assert isinstance(clock, EventClock)
    first, second = clock.time(fake.run), clock.time(lambda: (fake.run(), fake.run()))
    assert ("synchronize", CUDA) not in fake.log
    assert (first.seconds, first.cpu_seconds) == (0.0, None)
    clock.settle()
    assert fake.log.count(("synchronize", CUDA)) == 1
    assert (first.seconds, second.seconds) == (0.25, 0.5)


def test_the_name_is_that_of_the_device_asked_for(fake: FakeCuda) -> None:
    assert device_name(CUDA) == "GPU of cuda:1"
    assert device_name(torch.device("mps")) == "mps"
    assert not device_name(torch.device("cpu")).startswith("GPU")


def test_the_processor_is_named(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: AMD EPYC 9\nmodel name\t: AMD EPYC 9\n")
    assert cpu_name(cpuinfo) == f"AMD EPYC 9 {platform.machine()}"
    assert cpu_name(tmp_path / "none") == platform.machine()


def test_libraries_have_their_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    assert library_versions(CUDA) == {"torch": torch.__version__, "cuDNN": "91002"}
    monkeypatch.setattr(
        torch.__config__, "show", lambda: "BLAS_INFO=mkl\n  - Intel(R) MKL-DNN v3.12.0 (Git Hash 80af)\n"
    )
    assert library_versions(torch.device("cpu")) == {"torch": torch.__version__, "oneDNN": "3.12.0"}
    monkeypatch.setattr(torch.__config__, "show", lambda: "USE_MKLDNN=0")
    assert library_versions(torch.device("cpu")) == {"torch": torch.__version__}


def test_cudnn_is_known_by_its_operator() -> None:
    def call() -> None:
        meta = torch.zeros(5, 2, 3, device="meta")
        state = torch.zeros(1, 2, 4, device="meta")
        weights = [torch.zeros(shape, device="meta") for shape in ((12, 3), (12, 4), (12,), (12,))]
        # mode 3 is the GRU; the operator has a meta kernel, so that it can be called without a GPU.
        torch.ops.aten._cudnn_rnn(meta, weights, 4, None, state, None, 3, 4, 0, 1, False, 0.0, True, False, [], None)

    assert kernel_family(call) == "cuDNN"
    assert kernel_family(lambda: torch.zeros(1) + 1) == "native"
    assert set(conditions._FAMILIES.values()) == {"oneDNN", "cuDNN", "MIOpen", "MPS"}


@pytest.mark.parametrize("error", [AssertionError("Torch not compiled\nmore"), RuntimeError(""), AttributeError("x")])
def test_a_device_that_cannot_hold_a_tensor_is_refused(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def zeros(size: int, *, device: torch.device) -> Tensor:
        asked.append(device)
        raise error

    monkeypatch.setattr(torch, "zeros", zeros)
    reason = str(error).split("\n")[0] or "RuntimeError"
    with pytest.raises(DeviceError, match=f"^device 'cuda:1' cannot be used: {reason}$"):
        check_device("cuda:1")
    assert asked == [CUDA]


def test_devices_that_there_are_pass() -> None:
    check_device(None)
    check_device("cpu")
    check_device(torch.device("cpu"))


@on_a_gpu
def test_a_real_gpu_passes_and_has_a_name_and_releases() -> None:
    device = torch.device("cuda")
    check_device("cuda")
    assert device_name(device) == torch.cuda.get_device_properties(0).name
    assert int(library_versions(device)["cuDNN"]) > 8000
    with pytest.raises(DeviceError, match="device 'cuda:99' cannot be used"):
        check_device("cuda:99")


@on_a_gpu
def test_the_peak_of_a_real_gpu_by_hand() -> None:
    def run() -> tuple[Tensor, ...]:
        first = torch.zeros(1 << 20, device="cuda")
        return (first + 1,)

    # Two tensors of 4 MiB live at once; the allocator rounds up by less than a block of 2 MiB each.
    peak = peak_bytes(run, torch.device("cuda"), torch.zeros(1, device="cuda"))
    assert peak is not None
    assert 8 << 20 <= peak <= 12 << 20


@on_a_gpu
def test_the_clock_of_a_real_gpu_adds_up() -> None:
    clock = clock_for(torch.device("cuda"))
    data = torch.randn(2048, 2048, device="cuda")

    def work(times: int) -> None:
        for _ in range(times):
            data @ data

    clock.time(lambda: work(20))
    clock.settle()
    once, fourfold = clock.time(lambda: work(50)), clock.time(lambda: work(200))
    clock.settle()
    assert fourfold.seconds / once.seconds == pytest.approx(4, rel=0.2)


@on_a_gpu
def test_a_real_gpu_runs_cudnn() -> None:
    rnn = torch.nn.LSTM(3, 4).cuda()
    assert kernel_family(lambda: rnn(torch.zeros(5, 2, 3, device="cuda"))) == "cuDNN"
