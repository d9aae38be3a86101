from __future__ import annotations

import re

import msgspec

from rnncost.counting import RnnSpec
from rnncost.reporting import CostReport, LayerCost
from rnncost.reporting.contamination import Contamination
from rnncost.reporting.renderers.html import HtmlRenderer
from rnncost.reporting.verdict import verdict
from tests.reporting.reports import SCRIPTED, packed_layer, padded_layer, report
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
    assert "unknown for 1 layer: a cell sees one step at a time." in verdict(report(cell))
    assert "unknown for 2 layers: true lengths" in verdict(report(cell, padded_layer("other", 2, 4)))


def test_time_says_whether_packing_is_in_it() -> None:
    packed, packing, split = ("packed", 1.5), ("packed+packing", 1.7), ("split", 0.5)
    assert verdict(report(timed(packed, split, best="split"))).endswith(
        " When timed, packed took 1.50× (1.40 to 1.60) the time of padded. "
        "Fastest with the same results: split, 0.50× (0.40 to 0.60)."
    )
    assert verdict(report(timed(packed, packing, best="packed"))).endswith(
        " When timed, packed took 1.70× (1.60 to 1.80) the time of padded, its packing included."
    )


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
