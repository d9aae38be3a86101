from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rnncost.counting import BatchShape, Tally, check_lengths, parse_lengths
from rnncost.counting.kinds import CallKind
from rnncost.counting.tally import CallTally, merge_calls
from rnncost.errors import LengthsError
from tests.builders import packed_batch

any_lengths = st.lists(st.integers(1, 30), min_size=1, max_size=12)


def simulate(lengths: Sequence[int]) -> list[int]:
    """batch_sizes by walking through time."""
    return [sum(length > step for length in lengths) for step in range(max(lengths))]


def test_the_batch_that_people_learn_with() -> None:
    shape = BatchShape.from_lengths([9, 8, 6, 4, 3, 2])
    assert shape.batch_sizes == (6, 6, 5, 4, 3, 3, 2, 2, 1)
    assert (shape.rows, shape.padded_rows, shape.packed_rows) == (32, 54, 32)
    assert (shape.sequences, shape.steps, shape.longest_sequences) == (6, 9, 1)


@given(any_lengths)
def test_a_shape_equals_what_torch_packs(lengths: list[int]) -> None:
    packed = packed_batch(lengths, 1)
    shape = BatchShape.from_lengths(lengths)
    assert shape.batch_sizes == tuple(packed.batch_sizes.tolist()) == tuple(simulate(lengths))
    assert shape.rows == packed.data.shape[0] == sum(lengths)
    assert shape == BatchShape.from_batch_sizes(packed.batch_sizes.tolist())


@given(any_lengths, st.integers(0, 9), st.booleans())
def test_a_tally_equals_its_definition(lengths: list[int], extra: int, packed: bool) -> None:
    width = max(lengths) + extra
    tally = Tally.of(BatchShape.from_lengths(lengths, packed=packed, padded_length=width))
    sizes = simulate(lengths) if packed else [len(lengths)] * width
    assert tally.calls == 1
    assert (tally.sequences, tally.steps, tally.rows) == (len(lengths), len(sizes), sum(sizes))
    assert (tally.first_rows, tally.last_rows) == (sizes[0], sizes[-1])
    assert tally.step_rows == len(sizes) * sum(sizes)
    assert (tally.padded_rows, tally.padded_steps) == (len(lengths) * width, width)
    real = simulate(lengths)
    assert (tally.packed_rows, tally.packed_steps) == (sum(real), len(real))
    assert (tally.packed_last_rows, tally.packed_step_rows) == (real[-1], len(real) * sum(real))


@given(any_lengths)
def test_the_equivalents_of_a_tally_are_the_tallies_of_the_other_layouts(lengths: list[int]) -> None:
    packed = Tally.of(BatchShape.from_lengths(lengths, packed=True))
    padded = Tally.of(BatchShape.from_lengths(lengths, packed=False))
    assert padded.as_packed() == packed
    as_padded, without_step_rows = packed.as_padded(), padded.as_padded()
    assert as_padded == without_step_rows
    assert (as_padded.rows, as_padded.steps, as_padded.last_rows) == (padded.rows, padded.steps, padded.last_rows)


def test_tallies_add_in_any_order_and_unknown_stays_unknown() -> None:
    known = Tally.of(BatchShape.from_lengths([3, 1]))
    unknown = Tally.of(BatchShape.rectangle(sequences=2, steps=4))
    assert unknown.packed_rows is None
    assert unknown.as_packed() is None
    assert known + unknown == unknown + known
    assert (known + unknown).packed_rows is None
    assert (known + unknown).rows == 12
    assert known + Tally() == known
    assert (known + known) + unknown == known + (known + unknown)


def test_merge_calls_keeps_kinds_apart() -> None:
    tally = Tally.of(BatchShape.from_lengths([3, 1]))
    packed, padded = (CallTally(kind=CallKind(packed=flag), forward=tally) for flag in (True, False))
    merged = merge_calls([packed, padded, packed])
    assert [(call.kind.packed, call.forward.calls) for call in merged] == [(False, 1), (True, 2)]


def test_an_empty_padded_batch_has_no_rows() -> None:
    tally = Tally.of(BatchShape.rectangle(sequences=0, steps=3))
    assert (tally.calls, tally.rows, tally.padded_rows, tally.steps) == (1, 0, 0, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BatchShape.from_lengths([3, 2], padded_length=2), "padded_length is 2, but the longest"),
        (lambda: BatchShape.rectangle(sequences=2, steps=3, lengths=[3]), "1 lengths given for a batch of 2"),
        (lambda: BatchShape.rectangle(sequences=2, steps=3, lengths=[4, 1]), "length 4 given for a batch of 3 steps"),
        (lambda: BatchShape.from_lengths([]), "no length given"),
        (lambda: BatchShape.from_lengths([2, 0]), "0 at position 2 is below 1"),
    ],
)
def test_shapes_that_no_batch_has(make: object, message: str) -> None:
    with pytest.raises(LengthsError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("text", ["9,8,6", "9 8 6", "9\n8\n6\n", " 9, 8,\n6,", "+9,8,6"])
def test_lengths_are_read_from_text(text: str) -> None:
    assert parse_lengths(text) == (9, 8, 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9,0,6", "lengths: 0 at position 2 is below 1"),
        ("9,8,-6", "lengths: -6 at position 3 is below 1"),
        ("9,2.5", "'2.5' at position 2 is not an integer"),
        ("x", "'x' at position 1 is not an integer"),
        ("9,,6", "'' at position 2 is not an integer"),
        (",9", "'' at position 1 is not an integer"),
        ("", "no length given"),
        (" \n", "no length given"),
        ("9,٣", "'٣' at position 2 is not an integer"),
        ("1" * 5000, "at position 1 is not an integer"),
    ],
)
def test_bad_text_names_value_and_position(text: str, message: str) -> None:
    with pytest.raises(LengthsError, match=message):
        parse_lengths(text)


@pytest.mark.parametrize(
    "lengths", [[3, 2], (3, 2), np.array([3, 2], dtype=np.uint8), torch.tensor([3, 2], dtype=torch.int16), iter([3, 2])]
)
def test_lengths_of_any_integer_type(lengths: object) -> None:
    checked = check_lengths(lengths)  # type: ignore[arg-type]
    assert checked == (3, 2)
    assert {type(length) for length in checked} == {int}


@pytest.mark.parametrize("lengths", [[True], [3.0], ["3"], [None], torch.tensor([2.0]), "32", 3, torch.tensor(3)])
def test_lengths_of_other_types_are_refused(lengths: object) -> None:
    with pytest.raises(LengthsError):
        check_lengths(lengths)  # type: ignore[arg-type]
