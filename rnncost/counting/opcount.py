"""Operations by category, as integers."""

from __future__ import annotations

import msgspec


class OpCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many operations of each category were performed. Counts may be negative in differences.

    A dot product of n terms is n multiplications and n − 1 additions; adding a bias to its
    result is one addition more. Subtractions count as additions.

    Attributes:
        matmul_mults: multiplications inside matrix products.
        matmul_adds: additions inside matrix products.
        bias_adds: additions of bias terms.
        gate_mults: elementwise multiplications (cell arithmetic, derivatives, dropout).
        gate_adds: elementwise additions (gate sums, cell arithmetic, derivatives).
        accumulate_adds: additions that sum gradients of one tensor over steps and uses.
        activations: evaluations of sigmoid, tanh and relu; in neither mults nor adds.
    """

    matmul_mults: int = 0
    matmul_adds: int = 0
    bias_adds: int = 0
    gate_mults: int = 0
    gate_adds: int = 0
    accumulate_adds: int = 0
    activations: int = 0

    @classmethod
    def product(cls, rows: int, columns: int, terms: int) -> OpCount:
        """A matrix product of ``(rows, terms)`` with ``(terms, columns)``: a dot product is n mults, n − 1 adds."""
        dots = rows * columns
        return cls(matmul_mults=dots * terms, matmul_adds=dots * (terms - 1))

    @property
    def mults(self) -> int:
        """Every multiplication."""
        return self.matmul_mults + self.gate_mults

    @property
    def adds(self) -> int:
        """Every addition."""
        return self.matmul_adds + self.bias_adds + self.gate_adds + self.accumulate_adds

    @property
    def macs(self) -> int:
        """Multiplications inside matrix products alone: fvcore's "flop"."""
        return self.matmul_mults

    @property
    def flops(self) -> int:
        """Two operations a MAC, the unit of ``torch.utils.flop_counter``."""
        return 2 * self.matmul_mults

    def __add__(self, other: OpCount) -> OpCount:
        return OpCount(**{name: getattr(self, name) + getattr(other, name) for name in OpCount.__struct_fields__})

    def __sub__(self, other: OpCount) -> OpCount:
        return self + other * -1

    def __mul__(self, times: int) -> OpCount:
        return OpCount(**{name: getattr(self, name) * times for name in OpCount.__struct_fields__})

    __rmul__ = __mul__
