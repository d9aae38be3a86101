from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncost.counting import OpCount
from rnncost.reporting import CostReport, merge
from rnncost.reporting.compare import compare
from rnncost.reporting.notes import notes
from rnncost.reporting.renderers.charts.operations import distinct_names
from rnncost.reporting.renderers.digest import doubts
from rnncost.reporting.timing import RunTime
from rnncost.reporting.verdict import verdict
from tests.reporting.reports import GRU, LSTM, SCRIPTED, packed_layer, padded_layer, report


def test_totals_are_sums_of_layers() -> None:
    first, second = packed_layer("a", [5, 2]), packed_layer("b", [4, 4], GRU)
    whole = report(first, second)
    assert whole.executed == first.executed + second.executed
    assert whole.padded == first.padded + second.padded
    assert whole.saved == first.saved + second.saved
    assert whole.wasted == OpCount()
    assert whole.saved_fraction == 207 / (690 + second.padded.mults)


def test_unknown_lengths_of_one_layer_make_the_total_unknown() -> None:
    whole = report(packed_layer("a", [5, 2]), padded_layer("b", 2, 4))
    assert (whole.packed, whole.wasted, whole.wasted_fraction) == (None, None, None)
    known = report(packed_layer("a", [5, 2]), padded_layer("b", 2, 4, [4, 1]))
    assert known.layers[1].wasted_fraction == 3 / 8


def test_nothing_undefined_is_a_number() -> None:
    empty = CostReport()
    assert (empty.saved_fraction, empty.wasted_fraction) == (None, None)
    assert (empty.executed, empty.packed) == (OpCount(), OpCount())


def test_str_has_three_lines_and_repr_one() -> None:
    whole = report(packed_layer("a", [5, 2]))
    assert str(whole) == (
        "rnncost report: 1 recurrent layer\n"
        "executed 483 mults, 525 adds; padded 690 mults, 750 adds\n"
        "saved 30.0 % of the padded mults; wasted 0.0 % of the executed mults"
    )
    assert repr(whole) == "<CostReport layers=1 executed_mults=483 padded_mults=690 partial=False>"
    partial = report(padded_layer("a", 1, 2), uncounted=(SCRIPTED,))
    assert len(str(partial).splitlines()) == 3
    assert "partial: 1 module uncounted" in str(partial)
    assert str(partial).endswith("; wasted unknown")


def test_merge_adds_sums_and_keeps_different_layers_apart() -> None:
    first = report(packed_layer("rnn", [5, 2]), packed_layer("only", [1]))
    second = report(packed_layer("rnn", [3, 3, 3]), packed_layer("rnn", [2], GRU), uncounted=(SCRIPTED,))
    merged = merge(first, second)
    assert [(layer.name, layer.spec, layer.tally.calls) for layer in merged.layers] == [
        ("rnn", LSTM, 2),
        ("only", LSTM, 1),
        ("rnn", GRU, 1),
    ]
    assert merged.layers[0].tally.rows == 7 + 9
    assert merged.executed == first.executed + second.executed
    assert merged.partial
    # A fraction of sums, not a mean of fractions: 3 of 10 and 0 of 9 rows saved.
    assert merged.layers[0].saved_fraction == 3 / 19
    assert first.merge(second) == merged


def test_merge_of_nothing_is_refused() -> None:
    with pytest.raises(TypeError, match="at least one"):
        merge()


def test_different_layers_do_not_merge() -> None:
    with pytest.raises(ValueError, match="different layers"):
        packed_layer("a", [1]).merge(packed_layer("b", [1]))


lengths = st.lists(st.integers(1, 9), min_size=1, max_size=5)


@given(st.lists(lengths, min_size=2, max_size=5))
def test_merging_is_associative_and_its_sample_independent_of_order(batches: list[list[int]]) -> None:
    reports = [report(packed_layer("rnn", batch)) for batch in batches]
    expected = merge(*reports)
    assert merge(reports[0], merge(*reports[1:])) == expected
    for order in itertools.islice(itertools.permutations(reports), 6):
        assert merge(*order) == expected


def test_a_merged_sample_stays_bounded() -> None:
    merged = merge(*(report(packed_layer("rnn", [n])) for n in range(1, 100)))
    assert [sample.priority for sample in merged.layers[0].samples] == list(range(1, 33))


def test_a_note_on_a_thousand_layers_names_a_few() -> None:
    time = RunTime(device="cpu", forward_calls=1, forward_s=0.5)
    timed = msgspec.structs.replace(packed_layer("timed", [2]), run_time=time)
    found = notes(report(timed, *(packed_layer(f"layer.{number}", [2]) for number in range(1_000))))
    assert "Not timed: 1,000 forward calls of layer.0, " in found[1]
    assert found[1].endswith("layer.7 and 992 more.")


def test_an_estimate_does_not_pass_for_what_ran_when_merged() -> None:
    ran, other = packed_layer("a", [5, 2]), packed_layer("b", [4], GRU)
    estimated = msgspec.structs.replace(packed_layer("a", [3, 3]), source="estimate")
    for reports in ((report(ran, other), report(estimated)), (report(estimated), report(ran, other))):
        whole = merge(*reports, report(estimated))
        assert {(layer.name, layer.source, layer.tally.rows) for layer in whole.layers} == {
            ("a", "module", 7),
            ("a", "estimate", 12),
            ("b", "module", 4),
        }
        assert doubts(whole) == "PARTLY ESTIMATED: "
        assert "Estimated, not run: a: each layer is taken to be called once a batch." in notes(whole)
        assert verdict(whole).startswith("Packing saved, in part by estimate, ")
        assert not compare(whole, whole).regressed
        a, other_a = (
            name for name, layer in zip(distinct_names(whole.layers), whole.layers, strict=True) if layer.name == "a"
        )
        assert {a, other_a} == {"a (LSTM 2x3)", "a (LSTM 2x3, estimate)"}
