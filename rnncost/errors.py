"""The exceptions and warnings that rnncost raises: each names the value at fault and the way out."""

from __future__ import annotations


class RnncostError(Exception):
    """Base of every error that rnncost raises on purpose."""


class TrackerStateError(RnncostError, RuntimeError):
    """A tracker was used in an order that cannot give a right count."""


class UnsupportedModuleError(RnncostError, TypeError):
    """An object is not a module, or not one that rnncost can count."""


class SpecError(RnncostError, ValueError):
    """Sizes or options that no recurrent module can have."""


class ModelLoadError(RnncostError):
    """A model file does not offer what a command needs."""


class DeviceError(RnncostError, ValueError):
    """A device that is not there, or that nothing can be timed on."""


class ReportFormatError(RnncostError, ValueError):
    """A report file is broken, foreign, of a newer version, or of an unknown format."""


class LengthsError(RnncostError, ValueError):
    """Sequence lengths that no batch can have."""


class UnitError(RnncostError, ValueError):
    """A quantity such as ``1.2M`` or ``30%`` that cannot be read."""


class RegressionError(RnncostError, AssertionError):
    """A cost limit was missed or a cost grew."""


class RnncostWarning(UserWarning):
    """Base of every warning that rnncost gives."""


class UncountedModuleWarning(RnncostWarning):
    """Recurrent work that cannot be counted; totals are partial."""


class NoisyTimingWarning(RnncostWarning):
    """Wall and processor time disagree: the machine was busy with something else."""
