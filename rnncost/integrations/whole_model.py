"""Counts a whole model on one batch, to see what part of it is recurrent."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from rnncost.integrations.fvcore import RNN_OP_HANDLES
from rnncost.integrations.torch_flops import RNN_FLOP_FORMULAS
from rnncost.reporting.whole_model import WholeModel
from rnncost.tracking.position_wise import watch_position_wise
from rnncost.tracking.run import call_model
from rnncost.tracking.tracker import CostTracker
from rnncost.tracking.undisturbed import undisturbed


def measure_whole_model(model: nn.Module, batch: Any) -> WholeModel:
    """Counts one batch by fvcore with rnncost's handles, or by ``FlopCounterMode`` where it fails.

    The model runs up to three times without gradients; modes and random state are kept.

    Args:
        model: the whole model.
        batch: as :func:`rnncost.tracking.run.run_batches` takes them.
    """
    with undisturbed(model), _quiet():
        with torch.no_grad(), CostTracker(model, verify=True) as tracker, watch_position_wise(model) as position_wise:
            call_model(model, batch)
        costs = tracker.report.costs
        total, counter, reason = _total(model, batch)
    return WholeModel(
        counter=counter,
        total_macs=total,
        recurrent_macs=costs.executed.macs,
        saved_macs=costs.saved.macs,
        position_wise=tuple(position_wise()),
        reason=reason,
    )


def _total(model: nn.Module, batch: Any) -> tuple[int, str, str]:
    try:
        return _by_fvcore(model, batch), "fvcore", ""
    except Exception as error:  # whatever a trace of somebody's model may raise
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=RNN_FLOP_FORMULAS) as flops:
        call_model(model, batch)
    return flops.get_total_flops() // 2, "FlopCounterMode", reason[:120]


def _by_fvcore(model: nn.Module, batch: Any) -> int:
    from fvcore.nn import FlopCountAnalysis

    if isinstance(batch, dict) or hasattr(batch, "batch_sizes"):
        raise TypeError("keyword arguments and a PackedSequence cannot be traced")
    inputs = tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)
    analysis = FlopCountAnalysis(model, inputs).set_op_handle(**RNN_OP_HANDLES)
    analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings("none")
    return int(analysis.total())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("fvcore")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)
