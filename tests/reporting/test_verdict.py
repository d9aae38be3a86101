from __future__ import annotations

import re

import msgspec

from rnncost.counting import RnnSpec
from rnncost.reporting import CostReport, LayerCost
from rnncost.reporting.contamination import Contamination
from rnncost.reporting.renderers.html import HtmlRenderer
from rnncost.reporting.renderers.markdown import MarkdownRenderer
from rnncost.reporting.renderers.notebook import NotebookRenderer
from rnncost.reporting.renderers.page import figures
from rnncost.reporting.verdict import verdict, verdict_on_operations
from tests.reporting.reports import LSTM, SCRIPTED, packed_layer, padded_layer, report
from tests.reporting.test_pictures import beyond_padded
from tests.reporting.test_text import CONDITIONS, timing


def timed(*layouts: tuple[str, float], best: str) -> LayerCost:
    timings = tuple(timing(layout, ratio, "slower", 7) for layout, ratio in (("padded", 1.0), *layouts))
    return msgspec.structs.replace(
        packed_layer("rnn", [5, 2]), timings=timings, conditions=CONDITIONS, best_layout=best
    )


def test_work_that_could_not_be_counted_ran_all_the_same() -> None:
    assert verdict(CostReport()) == "No recurrent work ran, so there is nothing to judge."
    assert (
        verdict(report(uncounted=(SCRIPTED,)))
        == "No recurrent work that could be counted ran, so there is nothing to judge."
    )


def test_saved_operations_are_not_saved_time() -> None:
    assert verdict(report(packed_layer("rnn", [5, 2]))) == (
        "Packing saved 30.0 % of the multiplications: 483 instead of 690. None of what ran was padding. "
        "Whether that saves time was not measured."
    )


def test_where_nothing_was_saved_no_time_was_either() -> None:
    assert verdict(report(padded_layer("rnn", 2, 4))) == (
        "No multiplication of the padded batches was saved (408 ran). How much of what ran was padding is unknown for "
        "1 layer: true lengths were not given. Time was not measured."
    )


def test_a_cell_has_no_lengths_to_give() -> None:
    cell = msgspec.structs.replace(
        padded_layer("rnn", 2, 1), spec=RnnSpec(kind="lstm", input_size=2, hidden_size=3, cell=True)
    )
    # LSTM(2, 3): 69 mults a row, 2 rows.
    assert verdict(report(cell)) == (
        "138 multiplications ran; what padded batches would have cost is unknown. "
        "How much of what ran was padding is unknown for 1 layer: a cell sees one step at a time. "
        "Time was not measured."
    )
    assert "unknown for 2 layers: true lengths" in verdict(report(cell, padded_layer("other", 2, 4)))


def test_every_form_says_why_waste_is_unknown() -> None:
    cell = msgspec.structs.replace(
        padded_layer("rnn", 2, 1), spec=RnnSpec(kind="lstm", input_size=2, hidden_size=3, cell=True)
    )
    for renderer in (HtmlRenderer(), MarkdownRenderer(), NotebookRenderer()):
        shown = renderer.render(report(cell))
        assert "padding is unknown for 1 layer: a cell sees one step at a time." in shown
        assert "lengths not given" not in shown
        assert "lengths unknown" not in shown


def test_what_is_counted_does_not_vouch_for_the_rest() -> None:
    assert verdict(report(packed_layer("rnn", [5, 2]), uncounted=(SCRIPTED,))) == (
        "Of the work that could be counted, packing saved 30.0 % of the multiplications: 483 instead of 690. "
        "None of that work was padding. Whether that saves time was not measured."
    )


def test_an_estimate_did_not_run() -> None:
    packed = msgspec.structs.replace(packed_layer("rnn", [5, 2]), source="estimate")
    assert verdict_on_operations(report(packed)) == (
        "Packing would save 30.0 % of the multiplications: 483 instead of 690. None of what would run would be padding."
    )
    # GRU(2, 3): 51 mults a row, 8 rows, 3 of them padding.
    padded = msgspec.structs.replace(padded_layer("rnn", 2, 4, [4, 1]), source="estimate")
    assert verdict_on_operations(report(padded)) == (
        "No multiplication of the padded batches would be saved (408 would run). "
        "37.5 % of what would run would be padding (153)."
    )


def test_more_than_padded_is_no_saving() -> None:
    said = verdict_on_operations(report(beyond_padded("odd")))
    assert said.startswith("More multiplications ran than padded batches take: 483, 69 more. ")


def test_time_of_some_layers_is_not_that_of_all() -> None:
    rest = (packed_layer("second", [5, 2]), LayerCost(name="never called", spec=LSTM))
    said = verdict(report(timed(("packed", 1.5), ("split", 0.5), best="split"), *rest))
    assert said.endswith(
        " When timed in 1 of 2 layers, packed took 1.50× (1.40 to 1.60) the time of padded. "
        "Fastest in 1 of 2 layers with the same outputs and hidden states: split, 0.50× (0.40 to 0.60)."
    )


def test_time_says_whether_packing_is_in_it() -> None:
    packed, packing, split = ("packed", 1.5), ("packed+packing", 1.7), ("split", 0.5)
    assert verdict(report(timed(packed, split, best="split"))).endswith(
        " When timed, packed took 1.50× (1.40 to 1.60) the time of padded. "
        "Fastest with the same outputs and hidden states: split, 0.50× (0.40 to 0.60)."
    )
    assert verdict(report(timed(packed, packing, best="packed"))).endswith(
        " When timed, packed took 1.70× (1.60 to 1.80) the time of padded, its packing included."
    )


def test_too_few_rounds_have_no_interval_and_no_verdict() -> None:
    layer = timed(("packed", 1.5), ("split", 0.5), best="split")
    few = msgspec.structs.replace(CONDITIONS, rounds=3, complete=False)
    found = report(msgspec.structs.replace(layer, conditions=few))
    assert "packed took 1.50× (1.40 to 1.60, of too few rounds for a verdict) the time of padded." in verdict(found)
    assert layer.advice is not None
    assert "95 % interval 0.40 to 0.60" in layer.advice
    assert "range of only 3 rounds 0.40 to 0.60" in str(found.layers[0].advice)
    page, comment, notebook = HtmlRenderer().render(found), MarkdownRenderer().render(found), found._repr_html_()
    assert figures(found)[2].detail == "packed to padded, 1.40 to 1.60; too few rounds for a verdict"
    assert "with its 95 % interval, of fewer than 6 rounds the range of all." in page
    assert "0.50x (0.40 to 0.60) of padded (in only 3 rounds, no verdict)" in comment
    for text in (page, comment, notebook):
        assert "The timing was INTERRUPTED, so it is less certain: rnn." in text
        assert "Timed in too few rounds for a verdict, which takes 6, so that what looks faster may not be: rnn" in text
    for text in (HtmlRenderer().render(report(layer)), MarkdownRenderer().render(report(layer))):
        assert "INTERRUPTED" not in text
        assert "too few rounds" not in text


def test_time_says_of_how_many_layers_it_is() -> None:
    layer, other = timed(("packed", 1.5), best="packed"), packed_layer("other", [5, 2])
    assert "When timed in 1 of 2 layers, packed took 1.50× (1.40 to 1.60)" in verdict(report(layer, other))
    assert figures(report(layer, other))[2].detail == "packed to padded, 95 % in 1.40 to 1.60, 1 of 2 layers"
    second = msgspec.structs.replace(layer, name="second")
    assert "When timed in 2 of 3 layers, packed took 1.50× (sum of 2 layers)" in verdict(report(layer, second, other))
    assert figures(report(layer, second, other))[2].detail == "packed to padded, sum of 2 of 3 layers"
    assert "When timed, packed took 1.50× (sum of 2 layers)" in verdict(report(layer, second))


def test_layers_that_took_no_time_at_all_have_no_ratio() -> None:
    instant = tuple(msgspec.structs.replace(timing(name, 1.0, "same", 7), total_s=0.0) for name in ("padded", "packed"))
    layers = [msgspec.structs.replace(timed(best="packed"), name=name, timings=instant) for name in ("a", "b")]
    assert "was not measured" in verdict(report(*layers))


def test_what_may_be_as_fast_is_named_beside_the_fastest() -> None:
    found = report(timed(("packed", 1.5), ("split", 0.5), ("bucketed(2)", 0.55), ("loop", 0.9), best="split"))
    assert verdict(found).endswith("split, 0.50× (0.40 to 0.60); not told apart from bucketed(2).")
    said = "`split`, 0.50x (0.40 to 0.60) of padded; not told apart from `bucketed(2)`.\n"
    assert said in MarkdownRenderer().render(found)


def test_on_a_page_a_number_and_its_unit_stay_together() -> None:
    # GRU(9, 9): 3 · 9 · (9 + 9) mults in products and 2 · 9 beside them, on 70 of 100 rows.
    gru = RnnSpec(kind="gru", input_size=9, hidden_size=9)
    page = HtmlRenderer().render(report(packed_layer("rnn", [50, 20], gru)))
    assert "Packing saved 30.0\u00a0% of the multiplications: 35.3\u00a0k instead of 50.4\u00a0k." in page
    assert "15.1\u00a0k of 50.4\u00a0k padded mults" in page


def test_on_a_page_each_result_of_a_check_has_its_line() -> None:
    checked = Contamination(name="rnn", unchecked="one\ntwo")
    page = HtmlRenderer().render(CostReport(contaminations=(checked,)))
    assert "<li>rnn is not checked: one\ntwo</li>" in page
    assert re.search(r"li { [^}]*white-space: pre-line;", page)
