"""Times the backward of each call inside the user's own run, by hooks on autograd nodes that last one pass.

A backward begins when the first gradient arrives at an output of the call. Autograd says when it goes
on, not when it has done: the end is told by the nodes that the call gives gradients to.

- A weight is a leaf, served as soon as the last gradient for it is there. Once all weights are that
  want one, so is the call: the gradient of its input comes of the same operation as that of the
  weights on its input. A weight that several calls share in one pass tells the end of the last alone.
- Any other node was made before the call, and autograd runs nodes in the reverse order of their making:
  when it goes on to one of them, or to another call that is watched, the call is done. This is a
  bound: work of branches beside the call, made after its input and before itself, lies in between.

Where neither is there the end cannot be told: the call counts as untimed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from rnncost.tracking.durations import Durations, Span
from rnncost.tracking.moments import Moment, Moments
from rnncost.tracking.wants import CELL, INPUT, STATE

# A pass that raised has no end that anybody is told of; so many are kept at most.
_MOST_PASSES = 64
_current_node = torch._C._current_autograd_node
_functions: Any = torch._C._functions  # its stub does not list them all


class BackwardTimes:
    """Times the backward of one module's calls.

    Attributes:
        durations: what they took.
        untimed: calls whose end could not be told.
    """

    def __init__(self, passes: Passes, durations: Durations) -> None:
        self._passes = passes
        self.durations = durations
        self.untimed = 0

    def reached(self) -> Moment | None:
        """The moment at which autograd reached a call, on the clock of the call that it comes from."""
        return self._passes.reached()

    def begin(
        self,
        *,
        backward_pass: int,
        device: torch.device,
        nodes: dict[str, Any],
        last: frozenset[str],
        reached: Moment | None,
        vmapped: bool,
    ) -> None:
        """The first gradient of a call arrived.

        Args:
            backward_pass: the pass that is running.
            device: where its gradients are.
            nodes: the autograd nodes that it gives gradients to in this pass, by parameter name or role.
            last: names of the weights on its input, whose gradients are the last that it computes.
            reached: when it arrived, before any work of ours.
            vmapped: several calls run as one.
        """
        self._passes.go_on(reached)
        self._passes.begin(_Running(self, last), backward_pass, device, nodes, vmapped=vmapped)


class _Running:
    """The backward of one call, from its first gradient to the end of the pass."""

    def __init__(self, times: BackwardTimes, last: frozenset[str]) -> None:
        self.moments: Moments | None = None
        self.device = ""
        self.start: Moment | None = None
        self._times = times
        self._last = last
        self._served: set[str] = set()
        self._ready: Moment | None = None
        self._passed: Moment | None = None
        self._below = False
        self._weights: frozenset[str] = frozenset()
        self._numbers = range(0)
        self._finished = False

    def begin(self, moments: Moments, device: str, nodes: dict[str, Any]) -> None:
        self.moments, self.device = moments, device
        self._weights = frozenset(nodes.keys() - {INPUT, STATE, CELL})
        if INPUT not in nodes:
            self._last = frozenset()
        # Numbers of the call's own nodes: up to the one that runs now, above those it was given.
        given = [node._sequence_nr() for node in nodes.values() if not _is_leaf(node)]
        first = _current_node()
        if first is not None:
            self._numbers = range(max(given, default=-1) + 1, first._sequence_nr() + 1)
        self.start = moments.now()

    def serve(self, names: set[str], moment: Moment | None) -> None:
        """A leaf has its gradient, of which this call gave the last part of all calls that are watched."""
        if INPUT in names:
            self.go_below(moment)
        weights = names & self._weights
        if weights:
            self._served |= weights
            self._ready = moment

    def go_below(self, moment: Moment | None) -> None:
        """Autograd goes on to a node that the call gives a gradient to."""
        self._below = True
        self.go_on(moment)

    def go_on(self, moment: Moment | None) -> None:
        """Autograd goes on to something that was made before the call."""
        if self._passed is None:
            self._passed = moment

    @property
    def gone_on(self) -> bool:
        """Whether it is known that autograd is beyond the call."""
        return self._finished or self._passed is not None

    def is_running(self) -> bool:
        """Whether a node of the call runs at this moment, and none of its gradients is there yet."""
        node = None if self.gone_on or self._ready is not None else _current_node()
        return node is not None and node._sequence_nr() in self._numbers

    def finish(self) -> None:
        """The pass has ended."""
        exact = self._weights <= self._served and self._last <= self._served
        end = self._ready if exact else None
        if end is None and self._below:
            end = self._passed
        if self.moments is None or self.start is None or end is None:
            self._times.untimed += 1
        else:
            self._times.durations.add(Span(self.moments, self.device, self.start, end))
        self._finished = True


class _Mark:
    """The hook on a node that notes when it runs. It stays for one pass."""

    def __init__(self, node: Any, moments: Moments, backward_pass: int) -> None:
        self.node = node  # kept, so that no other node gets its identity meanwhile
        self._leaf = _is_leaf(node)
        self._moments = moments
        self._pass = backward_pass
        self._calls: dict[_Running, set[str]] = {}
        self._handle = node.register_prehook(self)

    def add(self, running: _Running, name: str) -> None:
        if self._leaf and running not in self._calls:
            self._calls.clear()  # the last call tells
        self._calls.setdefault(running, set()).add(name)

    def __call__(self, grads: Any) -> None:
        if torch._C._current_graph_task_id() != self._pass:
            return  # left by a pass that raised
        moment = self._moments.now()
        for running, names in tuple(self._calls.items()):
            if self._leaf:
                running.serve(names, moment)
            else:
                running.go_below(moment)

    def remove(self) -> None:
        self._handle.remove()


class _Pass:
    """The calls and marks of one backward pass."""

    def __init__(self) -> None:
        self.calls: list[_Running] = []
        self.marks: dict[int, _Mark] = {}

    def finish(self) -> None:
        for mark in self.marks.values():
            mark.remove()
        for running in self.calls:
            running.finish()


class _Local(threading.local):
    """The call whose backward began last in one thread."""

    def __init__(self) -> None:
        self.latest: _Running | None = None


class Passes:
    """The backward passes that are running under one tracker. Thread-safe.

    Args:
        moments_at: finds what notes moments on a device.
    """

    def __init__(self, moments_at: Callable[[torch.device], Moments | None]) -> None:
        self._moments_at = moments_at
        self._passes: dict[int, _Pass] = {}
        self._lock = threading.Lock()
        self._local = _Local()

    def begin(
        self, running: _Running, backward_pass: int, device: torch.device, nodes: dict[str, Any], *, vmapped: bool
    ) -> None:
        """A gradient arrived at the first output of a call."""
        moments = None if vmapped else self._moments_at(device)
        with self._lock:
            one = self._pass(backward_pass)
            one.calls.append(running)
            if moments is None:
                return
            for name, node in nodes.items():
                if id(node) not in one.marks:
                    one.marks[id(node)] = _Mark(node, moments, backward_pass)
                one.marks[id(node)].add(running, name)
        self._local.latest = running
        running.begin(moments, device.type, nodes)

    def recomputing(self) -> None:
        """A forward call begins inside a backward pass."""
        latest = self._local.latest
        if latest is not None and not latest.is_running():
            self.go_on(self.reached())

    def recomputed(self) -> None:
        """A forward call ended inside a backward pass."""
        latest = self._local.latest
        # The call had waited for what checkpointing recomputed, which is forward time.
        if latest is not None and latest.moments is not None and latest.is_running():
            latest.start = latest.moments.now()

    def finish(self, backward_pass: int) -> None:
        """The pass has ended."""
        with self._lock:
            one = self._passes.pop(backward_pass, None)
        if one is not None:
            one.finish()

    def finish_all(self) -> None:
        """Ends all passes, such as those that raised."""
        for backward_pass in tuple(self._passes):
            self.finish(backward_pass)

    def reached(self) -> Moment | None:
        """The moment for :meth:`go_on`; ``None`` where it would tell nothing."""
        latest = self._local.latest
        if latest is None or latest.moments is None or latest.gone_on:
            return None
        return latest.moments.now()

    def go_on(self, moment: Moment | None) -> None:
        """Autograd goes on from the call whose backward began last in this thread."""
        if self._local.latest is not None:
            self._local.latest.go_on(moment)

    def _pass(self, backward_pass: int) -> _Pass:
        if backward_pass not in self._passes:
            while len(self._passes) >= _MOST_PASSES:
                self._passes.pop(next(iter(self._passes))).finish()
            self._passes[backward_pass] = _Pass()
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(lambda: self.finish(backward_pass))
        return self._passes[backward_pass]


def _is_leaf(node: Any) -> bool:
    return isinstance(node, _functions.AccumulateGrad)
