"""Pure integer arithmetic: what a batch costs in a recurrent module. No tensor, no torch."""

from rnncost.counting.lengths import check_lengths, parse_lengths
from rnncost.counting.opcount import OpCount
from rnncost.counting.shape import BatchShape
from rnncost.counting.spec import CustomSpec, RnnSpec
from rnncost.counting.tally import Tally

__all__ = ["BatchShape", "CustomSpec", "OpCount", "RnnSpec", "Tally", "check_lengths", "parse_lengths"]
