"""The proof that comes with a report: hooks and kernels compared."""

from __future__ import annotations

import msgspec


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """MACs as counted by hooks and as done by the recurrent kernels that ran, forward.

    Attributes:
        calls: kernel calls that were compared.
        kernel_macs: their MACs, read off the kernels' own arguments.
        counted_macs: MACs that were counted for them.
        reader_macs: MACs of modules that run no recurrent kernel, as their readers state them.
        unseen_calls: calls of modules that ran where kernels could not be watched.
        differences: what did not agree.
    """

    calls: int = 0
    kernel_macs: int = 0
    counted_macs: int = 0
    reader_macs: int = 0
    unseen_calls: int = 0
    differences: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether every kernel that was seen is counted exactly. Says nothing of ``unseen_calls``."""
        return not self.differences and self.kernel_macs == self.counted_macs

    def merge(self, other: Verification) -> Verification:
        """Both comparisons together."""
        sums = {
            name: getattr(self, name) + getattr(other, name)
            for name in ("calls", "kernel_macs", "counted_macs", "reader_macs", "unseen_calls")
        }
        return Verification(differences=tuple(dict.fromkeys(self.differences + other.differences)), **sums)

    def describe(self, *, partial: bool, calls: int) -> str:
        """The proof in a sentence.

        Args:
            partial: whether work is known that nobody counted.
            calls: calls that the report counts, of which the first alone may have been watched.
        """
        which = "was seen" if partial or self.unseen_calls else "ran meanwhile" if calls > self.calls else "ran"
        total = f"{self.calls:,} of {calls:,}" if calls > self.calls else f"{self.calls:,}"
        noun = "kernel call" if max(self.calls, calls) == 1 else "kernel calls"
        if self.differences:
            text = f"NOT VERIFIED: {'; '.join(self.differences)}"
        elif not self.calls:
            text = "Nothing to verify: no recurrent kernel was seen"
        else:
            text = (
                f"Verified on {total} {noun}: counted MACs equal the MACs of every recurrent kernel that {which} "
                f"({self.kernel_macs:,})"
            )
        if self.reader_macs:
            text += f"; {self.reader_macs:,} MACs are as readers state them"
        if self.unseen_calls:
            unseen = "1 call" if self.unseen_calls == 1 else f"{self.unseen_calls:,} calls"
            text += f"; {unseen} ran where kernels cannot be watched"
        return text + "."
