"""The shape of one batch: which cells of the rectangle of sequences and steps were run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rnncost.counting.lengths import check_lengths, count_lengths
from rnncost.errors import LengthsError


class BatchShape(msgspec.Struct, frozen=True, kw_only=True):
    """One batch as it reached a recurrent module.

    Attributes:
        packed: run as a ``PackedSequence`` (only real steps) or as a padded rectangle.
        sequences: B, the number of sequences.
        steps: T, the number of time steps that were run.
        padded_steps: width of the padded equivalent: the longest sequence, or more where
            the data was padded further.
        length_counts: pairs (length, number of sequences), longest first; ``None`` where the
            true lengths of a padded batch are unknown.
    """

    packed: bool
    sequences: int
    steps: int
    padded_steps: int
    length_counts: tuple[tuple[int, int], ...] | None

    def __post_init__(self) -> None:
        for name in ("sequences", "steps"):
            if getattr(self, name) < 0:
                raise LengthsError(f"{name} is {getattr(self, name)}; a batch has at least 0")
        if self.padded_steps < self.steps:
            raise LengthsError(
                f"padded_length is {self.padded_steps}, but the longest sequence has {self.steps} steps; "
                "give the width that the batch was padded to"
            )
        if self.length_counts is not None:
            self._check_length_counts(self.length_counts)

    def _check_length_counts(self, counts: tuple[tuple[int, int], ...]) -> None:
        sequences = sum(number for _, number in counts)
        if sequences != self.sequences:
            raise LengthsError(f"{sequences} lengths given for a batch of {self.sequences} sequences")
        longest = counts[0][0] if counts else 0
        if longest > self.steps:
            raise LengthsError(f"length {longest} given for a batch of {self.steps} steps")

    @classmethod
    def from_batch_sizes(cls, batch_sizes: Sequence[int], *, padded_length: int | None = None) -> BatchShape:
        """A packed batch, from ``PackedSequence.batch_sizes`` (sequences running at each step)."""
        following = [*batch_sizes[1:], 0]
        counts = [
            (t, now - then)
            for t, (now, then) in enumerate(zip(batch_sizes, following, strict=True), start=1)
            if now > then
        ]
        steps = len(batch_sizes)
        return cls(
            packed=True,
            sequences=batch_sizes[0] if batch_sizes else 0,
            steps=steps,
            padded_steps=steps if padded_length is None else padded_length,
            length_counts=tuple(reversed(counts)),
        )

    @classmethod
    def from_lengths(
        cls, lengths: Iterable[int], *, packed: bool = True, padded_length: int | None = None
    ) -> BatchShape:
        """A batch of sequences of known lengths, in any order.

        Args:
            lengths: steps of each sequence, each at least 1.
            packed: run packed, or as a rectangle as wide as the longest (or ``padded_length``).
            padded_length: width that the data was padded to, where more than the longest.

        Raises:
            LengthsError: for a length below 1, or ``padded_length`` below the longest.
        """
        checked = check_lengths(lengths)
        longest = max(checked)
        width = longest if padded_length is None else padded_length
        return cls(
            packed=packed,
            sequences=len(checked),
            steps=longest if packed else width,
            padded_steps=width,
            length_counts=count_lengths(checked),
        )

    @classmethod
    def rectangle(cls, *, sequences: int, steps: int, lengths: Iterable[int] | None = None) -> BatchShape:
        """A padded batch of ``sequences`` × ``steps`` cells; ``lengths`` where they are known.

        Raises:
            LengthsError: if the number of lengths is not ``sequences`` or one exceeds ``steps``.
        """
        # Of no sequence all lengths are known.
        counts = () if not sequences else None if lengths is None else count_lengths(check_lengths(lengths))
        return cls(packed=False, sequences=sequences, steps=steps, padded_steps=steps, length_counts=counts)

    @property
    def rows(self) -> int:
        """Cells executed per layer and direction: Σ batch_sizes packed, B·T padded."""
        if self.packed and self.packed_rows is not None:
            return self.packed_rows
        return self.sequences * self.steps

    @property
    def padded_rows(self) -> int:
        """Cells of the padded equivalent: B times its width."""
        return self.sequences * self.padded_steps

    @property
    def packed_rows(self) -> int | None:
        """Real cells, Σ lengths; ``None`` where the lengths are unknown."""
        if self.length_counts is None:
            return None
        return sum(length * number for length, number in self.length_counts)

    @property
    def longest(self) -> int | None:
        """Steps of the longest sequence; ``None`` where the lengths are unknown."""
        if self.length_counts is None:
            return None
        return self.length_counts[0][0] if self.length_counts else 0

    @property
    def longest_sequences(self) -> int | None:
        """Number of sequences as long as the longest: b_{T−1} of the packed batch."""
        if self.length_counts is None:
            return None
        return self.length_counts[0][1] if self.length_counts else 0

    @property
    def batch_size_runs(self) -> tuple[tuple[int, int], ...]:
        """Pairs (sequences running, number of steps), first step first: ``batch_sizes`` run by run."""
        if not self.packed or self.length_counts is None:
            return ((self.sequences, self.steps),)
        runs: list[tuple[int, int]] = []
        running = 0
        shorter_lengths = [length for length, _ in self.length_counts[1:]]
        for (length, number), shorter in zip(self.length_counts, [*shorter_lengths, 0], strict=True):
            running += number
            runs.append((running, length - shorter))
        return tuple(reversed(runs))

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """Sequences that run at each step, as they were executed."""
        return tuple(size for size, steps in self.batch_size_runs for _ in range(steps))
