"""Comparisons by hand: a row of LSTM(2, 3) is 69 mults, 75 adds and 60 MACs; one of GRU(2, 3) is 51, 60 and 45."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rnncost
from rnncost.counting import RnnSpec
from rnncost.counting.kinds import BackwardKind, CallKind
from rnncost.counting.tally import BackwardTally
from rnncost.errors import UnitError
from rnncost.reporting import Comparison, CostReport, LayerCost, Uncounted, compare
from rnncost.reporting.comparison import Figures, growth_of
from rnncost.reporting.verification import Verification
from tests.reporting.reports import GRU, LSTM, SCRIPTED, packed_layer, padded_layer, report

ONE = report(packed_layer("rnn", [5, 2]))


def trained(layer: LayerCost) -> LayerCost:
    tally = msgspec.structs.replace(layer.calls[0].forward, passes=1)
    return msgspec.structs.replace(
        layer, backward_calls=(BackwardTally(kind=BackwardKind(packed=True), backward=tally),)
    )


def statuses(comparison: Comparison) -> list[tuple[str, str, str | None]]:
    return [(each.status, each.name, each.old_name) for each in comparison.layers]


def test_a_report_against_itself_is_the_same() -> None:
    comparison = compare(ONE, ONE)
    assert statuses(comparison) == [("same", "rnn", None)]
    figures = Figures(calls=1, sequences=2, rows=7, macs=420, mults=483, adds=525, activations=105)
    assert comparison.baseline == comparison.current == figures
    assert comparison.layers[0].baseline == comparison.layers[0].current == figures
    assert (comparison.regressed, comparison.message, comparison.notes) == (False, "", ())
    assert str(comparison) == "No regression, limit mults:0%: 483 -> 483 mults (0.0 %); layers: 1 same."


def test_one_row_more_is_a_regression_at_0_percent() -> None:
    comparison = rnncost.compare(ONE, report(packed_layer("rnn", [6, 2])))
    assert isinstance(comparison, rnncost.Comparison)
    assert [(each.metric, each.layer, each.baseline, each.current) for each in comparison.regressions] == [
        ("mults", None, 483, 552),
        ("mults", "rnn (LSTM 2x3)", 483, 552),
    ]
    assert comparison.message == (
        "REGRESSION, limit mults:0%: 483 -> 552 mults (+14.3 %); layers: 1 changed.\n"
        "  in total: 483 -> 552 mults (+14.3 %), limit 0%\n"
        "  rnn (LSTM 2x3): 483 -> 552 mults (+14.3 %), limit 0%"
    )
    assert not compare(report(packed_layer("rnn", [6, 2])), ONE).regressed


@pytest.mark.parametrize(
    ("fail_on", "regressed"),
    [
        # 7 rows grow to 8: by a seventh, 14.2857... %, which is 69 mults, 75 adds, 60 MACs, 15 activations.
        ("mults:14.2857142857142857%", True),
        ("mults:14.2857142857142858%", False),
        ("mults:69", False),
        ("mults:68", True),
        ("adds:75", False),
        ("adds:74", True),
        ("MACs:0.06k", False),
        ("macs:59", True),
        ("flops:120", False),
        ("flops:119", True),
        ("rows:1", False),
        ("rows:0", True),
        ("activations:15", False),
        ("activations:14", True),
        ("wasted:0%", False),
        ("wasted:0%, mults:0%", True),
        ("none", False),
    ],
)
def test_limits_are_decided_to_the_last_operation(fail_on: str, regressed: bool) -> None:
    assert compare(ONE, report(packed_layer("rnn", [6, 2])), fail_on=fail_on).regressed is regressed


def test_a_limit_above_100_percent() -> None:
    # 2 rows to 5 is growth by 150 %.
    before, after = report(packed_layer("rnn", [2])), report(packed_layer("rnn", [5]))
    assert not compare(before, after, fail_on="mults:150%").regressed
    assert compare(before, after, fail_on="mults:149.9%").regressed


@pytest.mark.parametrize(
    ("fail_on", "message"),
    [
        ("", r"'' is not METRIC:LIMIT; write one like mults:0%"),
        ("mults", r"'mults' is not METRIC:LIMIT"),
        ("time:5%", r"'time:5%' is not METRIC:LIMIT.*the metrics are mults, adds, macs"),
        ("mults:0%,", r"'' is not METRIC:LIMIT"),
        ("mults:-1%", r"'-1%' is not a percentage of at least 0%"),
        ("mults:x%", r"'x%' is not a percentage"),
        ("mults:lots", r"'lots' is not a count"),
        ("mults:0.5", r"'0.5' is not a whole number"),
        ("mults:1e9%", r"'1e9%' is not a percentage"),
        ("none,mults:0%", r"'none' is not METRIC:LIMIT"),
    ],
)
def test_limits_that_cannot_be_read(fail_on: str, message: str) -> None:
    with pytest.raises(UnitError, match=message):
        compare(ONE, ONE, fail_on=fail_on)


def test_only_reports_are_compared() -> None:
    with pytest.raises(TypeError, match=r"baseline is a str, not a CostReport; CostReport.load\(\) reads one"):
        compare("base.json", ONE)  # type: ignore[arg-type]


def test_a_layer_that_grew_is_not_hidden_by_one_that_shrank() -> None:
    before = report(packed_layer("a", [5]), packed_layer("b", [5]))
    comparison = compare(before, report(packed_layer("a", [6]), packed_layer("b", [3])))
    assert [each.layer for each in comparison.regressions] == ["a (LSTM 2x3)"]
    assert comparison.current.mults < comparison.baseline.mults


def test_growth_from_nothing_exceeds_any_percentage_but_not_a_count() -> None:
    idle = report(LayerCost(name="rnn", spec=LSTM))
    assert compare(idle, report(packed_layer("rnn", [1])), fail_on="mults:10000%").regressed
    assert not compare(idle, report(packed_layer("rnn", [1])), fail_on="mults:69").regressed
    wasting = report(padded_layer("dec", 2, 4, [4, 3]))
    clean = report(padded_layer("dec", 2, 4, [4, 4]))
    assert compare(clean, wasting, fail_on="wasted:1000%").regressed
    assert not compare(wasting, clean, fail_on="wasted:0%").regressed


def test_an_added_layer_counts_in_the_total_and_is_named() -> None:
    comparison = compare(ONE, report(packed_layer("rnn", [5, 2]), packed_layer("extra", [2], GRU)))
    assert statuses(comparison) == [("same", "rnn", None), ("added", "extra", None)]
    assert [each.layer for each in comparison.regressions] == [None]
    assert comparison.message.splitlines()[1:] == [
        "  in total: 483 -> 585 mults (+21.1 %), limit 0%",
        "  added: extra (GRU 2x3), 102 mults",
    ]


def test_a_removed_layer_is_listed_and_no_regression() -> None:
    comparison = compare(report(packed_layer("rnn", [5, 2]), packed_layer("gone", [2], GRU)), ONE)
    assert statuses(comparison) == [("same", "rnn", None), ("removed", "gone", None)]
    assert comparison.layers[1].current is None
    assert not comparison.regressed


def test_renamed_layers_are_found_by_their_sums_then_by_being_the_only_ones() -> None:
    before = report(packed_layer("a", [5]), packed_layer("b", [3]), packed_layer("c", [2], GRU))
    after = report(packed_layer("y", [3]), packed_layer("x", [5]), packed_layer("z", [4], GRU))
    comparison = compare(before, after)
    assert statuses(comparison) == [("renamed", "y", "b"), ("renamed", "x", "a"), ("renamed", "z", "c")]
    assert [each.layer for each in comparison.regressions] == [None, "c -> z (GRU 2x3)"]


def test_several_candidates_of_other_sums_are_not_guessed_at() -> None:
    before = report(packed_layer("a", [5]), packed_layer("b", [3]))
    comparison = compare(before, report(packed_layer("x", [2])))
    assert statuses(comparison) == [("added", "x", None), ("removed", "a", None), ("removed", "b", None)]


def test_a_name_outweighs_a_spec() -> None:
    comparison = compare(ONE, report(packed_layer("rnn", [5, 2], GRU), packed_layer("moved", [5, 2])))
    assert statuses(comparison) == [("changed", "rnn", None), ("added", "moved", None)]
    change = comparison.layers[0]
    assert (change.old_spec, change.spec, change.label) == (LSTM, GRU, "rnn (LSTM 2x3 -> GRU 2x3)")


def test_two_layers_of_one_name_are_told_apart_by_their_specs() -> None:
    wide = RnnSpec(kind="lstm", input_size=9, hidden_size=3)
    before = report(packed_layer("rnn", [5]), packed_layer("rnn", [2], GRU))
    comparison = compare(before, report(packed_layer("rnn", [2], GRU), packed_layer("rnn", [5], wide)))
    assert [(each.status, each.old_spec, each.spec) for each in comparison.layers] == [
        ("same", None, GRU),
        ("changed", LSTM, wide),
    ]


def test_unknown_waste_is_never_0() -> None:
    known, unknown = report(padded_layer("dec", 2, 4, [4, 4])), report(padded_layer("dec", 2, 4))
    lost = compare(known, unknown, fail_on="wasted:1000%")
    assert str(lost.regressions[0]) == "in total: 0 -> ? wasted mults (cannot be told), limit 1000%"
    assert [each.layer for each in lost.regressions] == [None, "dec (GRU 2x3)"]
    assert compare(unknown, unknown, fail_on="wasted:1000%").regressed
    # Nothing wasted is no growth from whatever it was.
    assert not compare(unknown, known, fail_on="wasted:0%").regressed
    wasting = report(padded_layer("dec", 2, 4, [4, 1]))  # 3 rows of filler, 153 mults
    assert compare(unknown, wasting, fail_on="wasted:1000%").regressed
    assert not compare(unknown, wasting, fail_on="wasted:153").regressed
    assert not compare(known, unknown).regressed
    assert compare(known, unknown).notes == (
        "? = unknown: padded calls of the current report came without true lengths; give them with lengths=.",
    )


def test_newly_uncounted_work_guarantees_nothing() -> None:
    partial = report(packed_layer("rnn", [5, 2]), uncounted=(SCRIPTED,))
    comparison = compare(ONE, partial)
    assert [each.reason for each in comparison.regressions] == [
        "cannot be guaranteed, since work is newly uncounted: vad.rnn (LSTM) is not counted: scripted"
    ]
    assert comparison.summary.startswith("PARTIAL: 483 -> 483 mults")
    assert not compare(ONE, partial, fail_on="none").regressed
    known = compare(partial, partial)
    assert (known.regressed, known.partial, len(known.notes)) == (False, True, 2)
    twice = report(
        packed_layer("rnn", [5, 2]),
        uncounted=(SCRIPTED, Uncounted(name="vad.rnn", type_name="LSTM", reason="backward of a backward")),
    )
    assert compare(partial, twice).regressed


def test_a_report_of_nothing_guards_nothing() -> None:
    for empty in (CostReport(), report(LayerCost(name="rnn", spec=LSTM))):
        comparison = compare(ONE, empty)
        assert [each.reason for each in comparison.regressions] == [
            "no recurrent layer ran in the current report, so there is nothing to hold to a limit"
        ]


def test_a_backward_that_one_report_lacks() -> None:
    layer = packed_layer("rnn", [5, 2])
    with_backward = report(trained(layer))
    total = with_backward.executed.mults
    assert compare(with_backward, with_backward).baseline.mults == total > 483
    lost = compare(with_backward, report(packed_layer("rnn", [6, 2])))
    # Not hidden by the backward that the baseline alone has.
    assert lost.forward_only
    assert (lost.baseline.mults, lost.current.mults, lost.regressed) == (483, 552, True)
    assert "483 -> 552 forward mults" in lost.summary
    assert lost.notes[0].startswith("Only the baseline counts backward passes, so forward passes alone")
    gained = compare(ONE, with_backward)
    assert (gained.baseline.mults, gained.current.mults, gained.regressed) == (483, total, True)
    assert (gained.baseline.backward_calls, gained.current.backward_calls) == (0, 1)
    assert gained.notes[0].startswith("Only the current report counts backward passes, and all of them are growth")


def test_what_a_backward_recomputed_goes_with_it() -> None:
    layer = packed_layer("rnn", [5, 2])
    again = msgspec.structs.replace(layer.calls[0], kind=CallKind(packed=True, recomputed=True))
    checkpointed = msgspec.structs.replace(trained(layer), calls=(layer.calls[0], again))
    assert not compare(report(checkpointed), ONE).regressed
    assert compare(report(checkpointed), report(packed_layer("rnn", [6, 2]))).regressed


def test_other_amounts_of_work_are_noted() -> None:
    twice = msgspec.structs.replace(ONE.layers[0], calls=ONE.layers[0].calls * 2)
    comparison = compare(ONE, report(twice))
    assert comparison.notes == (
        "Not the same amount of work: calls 1 -> 2, sequences 2 -> 4. Mults a call: 483.0 -> 483.0.",
    )


def test_estimates_and_failed_proofs_are_noted() -> None:
    estimate = report(msgspec.structs.replace(ONE.layers[0], source="estimate"))
    proof = Verification(calls=1, kernel_macs=1, counted_macs=420)
    notes = compare(estimate, msgspec.structs.replace(ONE, verification=proof)).notes
    assert notes[0] == "NOT VERIFIED: the counts of the current report differ from the kernels that were seen."
    assert notes[1].startswith("The baseline is an estimate, the other was tracked")
    assert "The current report is an estimate" in compare(ONE, estimate).notes[0]


def test_the_message_fits_a_screen() -> None:
    before = report(*(packed_layer(f"rnn{n}", [5]) for n in range(50)))
    after = report(*(packed_layer(f"rnn{n}", [6]) for n in range(50)))
    lines = compare(before, after).message.splitlines()
    assert len(lines) == 14
    assert lines[-1] == "  and 39 more"


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (7, 8, "+14.3 %"),
        (8, 7, "-12.5 %"),
        (10**9, 10**9 + 1, "+<0.1 %"),
        (5, 5, "0.0 %"),
        (0, 5, "from 0"),
        (5, 0, "-100.0 %"),
        (2, 25, "x12"),
        (10**3, 10**60, "x1.00e+57"),
        (None, 5, "?"),
        (5, None, "?"),
    ],
)
def test_growth_as_people_read_it(before: int | None, after: int | None, shown: str) -> None:
    assert growth_of(before, after) == shown


rows = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 30), min_size=1)


@given(rows, rows, st.integers(0, 120))
def test_a_percentage_against_brute_force(before: dict[str, int], after: dict[str, int], percent: int) -> None:
    # A layer of its own input size for each name: nothing is renamed. 12 gates of inputs and 3 states, 9 in the cell.
    def layer(name: str, length: int) -> LayerCost:
        return packed_layer(name, [length], RnnSpec(kind="lstm", input_size=ord(name), hidden_size=3))

    def mults(of: dict[str, int], names: set[str]) -> int:
        return sum(of[name] * (12 * (ord(name) + 3) + 9) for name in names)

    comparison = compare(
        report(*(layer(*each) for each in before.items())),
        report(*(layer(*each) for each in after.items())),
        fail_on=f"mults:{percent}%",
    )
    groups = [(set(before), set(after)), *(({name}, {name}) for name in set(before) & set(after))]
    grown = [100 * mults(after, now) > (100 + percent) * mults(before, then) for then, now in groups]
    assert len(comparison.regressions) == sum(grown)
    assert {each.name for each in comparison.layers} == set(before) | set(after)
    assert [each.status for each in comparison.layers].count("removed") == len(set(before) - set(after))
    assert comparison.baseline.mults == mults(before, set(before))
