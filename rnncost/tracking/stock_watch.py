"""Watches torch's own layers and cells, whose call is one kernel that its arguments describe."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from rnncost.counting import formulas
from rnncost.counting.tally import Tally
from rnncost.tracking import stock
from rnncost.tracking.gradients import BackwardCall
from rnncost.tracking.recorder import QUEUE_LENGTH
from rnncost.tracking.running import NO_GRAPH_TASK, raised, stopped_early, untraced
from rnncost.tracking.watched import Options, Watched

# Called for each plain call, so without a function of ours around them.
_graph_task = torch._C._current_graph_task_id
_tracing_state = torch._C._get_tracing_state
# Before 2.7 torch does not tell; torch.export(strict=True) inside a tracker fails there.
_is_exporting = getattr(torch.compiler, "is_exporting", bool)


class StockWatch(Watched):
    """A layer or cell of torch's own, whose call is one kernel that its arguments describe."""

    def __init__(self, name: str, module: nn.Module, options: Options) -> None:
        spec = stock.read_spec(module)
        assert spec is not None
        super().__init__(name, module, spec, options)
        self._spec = spec
        self._logs = options.logs
        self._shared_logs = options.logs.shared
        self._main = self.recorder(spec)
        self._queue = self._main.queue
        self._append = self._main.queue.append
        dropout = getattr(module, "dropout", 0) and spec.num_layers > 1
        self._shapes = options.shapes
        self._always_plain = not (dropout or options.backward or options.verifier or spec.cell)

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if _is_exporting():
            return  # torch.export may trace the hook itself; nothing runs
        plain = self._always_plain and self._shapes.plain
        if not plain or output is None or _graph_task() != NO_GRAPH_TASK or _tracing_state():
            self._read_all(module, args, kwargs, output)
            return
        # The plain call, all in one frame: a frame more costs as much as the reading. batch_sizes
        # lies on the CPU whatever the device of the data, so nothing waits for an accelerator.
        given = args[0] if args else kwargs["input"]
        if isinstance(given, PackedSequence):
            self._append(given.batch_sizes.tolist())
        else:
            shape = given.shape
            if len(shape) == 2:
                self._append((1, shape[0]))
            elif module.batch_first:
                self._append((shape[0], shape[1]))
            else:
                self._append((shape[1], shape[0]))
        if len(self._queue) >= QUEUE_LENGTH:
            self._main.sum_queue()
        if self._shared_logs.any_opened:
            self._logs.claim_one(self._spec)

    def _read_all(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if raised(output) and not stopped_early():
            return  # its kernel did not finish
        with untraced():
            if self._spec.cell:
                kind, shape, given = stock.read_cell(module, self._spec, args, kwargs)
            else:
                kind, shape, given = stock.read_layer(
                    module, self._spec, args, kwargs, self._options.shapes, name=self.name
                )
        if type(shape.sequences) is not int or type(shape.steps) is not int:
            return  # a symbolic size: torch.export traces, nothing runs
        self._main.add(kind, shape)
        kernels = self._logs.claim_one(self._spec)
        if self._options.verifier is not None:
            macs = formulas.forward(self._spec, Tally.of(shape)).macs
            self._options.verifier.compare(self.name, macs, kernels)
        if self._options.backward and output is not None and torch.is_grad_enabled():
            call = BackwardCall(recorder=self._main, spec=self._spec, called=kind, shape=shape, given=given)
            call.watch(*stock.output_tensors(output, cell=self._spec.cell))
