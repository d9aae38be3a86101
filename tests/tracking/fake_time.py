"""Clocks that tell what a test says, so that a tracker's times are exact."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rnncost.reporting.timing import RunTime
from rnncost.tracking import tracker
from rnncost.tracking.call_times import CallTimes
from rnncost.tracking.moments import EventMoments, Moments


class FakeTime:
    """A clock that stands still unless it is told how much time goes by."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self._taking_s: float | None = None

    def now(self) -> float:
        return self.at_s

    def passed(self, moment: float) -> bool:
        return True

    def wait(self) -> None:
        raise AssertionError("nothing to wait for")

    def seconds(self, start: float, end: float) -> float:
        return end - start

    def advance(self, seconds: float) -> None:
        self.at_s += seconds

    def forward_takes(self, module: nn.Module, seconds: float) -> None:
        """Has each later call of ``module`` take so long. Call it inside the tracker."""
        module.register_forward_pre_hook(lambda *_: self.advance(seconds))

    @contextlib.contextmanager
    def backward_takes(self, seconds: float) -> Iterator[None]:
        """Has the backward of what is called meanwhile take so long, in its first operation."""
        passes = {-1}

        def unpack(tensor: Tensor) -> Tensor:
            backward_pass = torch._C._current_graph_task_id()
            if backward_pass not in passes:
                passes.add(backward_pass)
                self.advance(seconds)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
            yield


class Slow(torch.autograd.Function):
    """Leaves its input as it is; its backward takes a while."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, time: FakeTime, seconds: float) -> Tensor:
        ctx.advance = functools.partial(time.advance, seconds)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.advance()
        return grads[0], None, None


class FakeDevice:
    """An accelerator that has done nothing until somebody waits for it, or it is let run."""

    def __init__(self) -> None:
        self.enqueued_ms = 0.0
        self.done_ms = -1.0
        self.capturing = False
        self.log: list[str] = []
        self.alive = 0

    def moments(self) -> EventMoments:
        return EventMoments(
            new_event=lambda: FakeEvent(self), synchronize=self._synchronize, capturing=lambda: self.capturing
        )

    def _synchronize(self) -> None:
        self.log.append("synchronize")
        self.done_ms = self.enqueued_ms


class FakeEvent:
    def __init__(self, device: FakeDevice) -> None:
        self._device = device
        device.alive += 1

    def __del__(self) -> None:
        self._device.alive -= 1

    def record(self) -> None:
        self.at_ms = self._device.enqueued_ms

    def query(self) -> bool:
        return self._device.done_ms >= self.at_ms

    def elapsed_time(self, end: FakeEvent) -> float:
        assert self.query()
        assert end.query()
        return end.at_ms - self.at_ms


def use_moments(monkeypatch: pytest.MonkeyPatch, new_moments: Callable[[torch.device], Moments]) -> None:
    """Has trackers take their moments from there."""
    monkeypatch.setattr(tracker, "CallTimes", functools.partial(CallTimes, new_moments=new_moments))


def seconds(time: RunTime | None) -> tuple[int, float, int, float, int]:
    """The figures of a time: forward calls and seconds, backward calls and seconds, untimed backwards."""
    assert time is not None
    return time.forward_calls, time.forward_s, time.backward_calls, time.backward_s, time.backward_untimed
