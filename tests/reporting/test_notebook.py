from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest

from rnncost.reporting import CostReport, LayerCost, Uncounted
from rnncost.reporting.renderers.notebook import NotebookRenderer
from tests.reporting.reports import GRU, SCRIPTED, packed_layer, padded_layer, report
from tests.reporting.test_pictures import LAYERS
from tests.reporting.test_text import CONDITIONS, timing


class Page(HTMLParser):
    """Collects text, tags and bars, and that every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.bars: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)
        values = dict(attrs)
        assert not [name for name in values if name.startswith("on") or name in ("href", "src")]
        if "aria-label" in values:
            self.bars.append(str(values["aria-label"]))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.words.append(data.strip())


TAGS = {"div", "p", "strong", "br", "table", "thead", "tbody", "tfoot", "tr", "th", "td", "bdi", "span", "ul", "li"}


def page(*layers: LayerCost, uncounted: tuple[Uncounted, ...] = ()) -> Page:
    return Page(NotebookRenderer().render(report(*layers, uncounted=uncounted)))


def test_everything_that_is_said() -> None:
    found = page(packed_layer("encoder.rnn", [5, 2]), padded_layer("decoder", 2, 4), uncounted=(SCRIPTED,))
    assert found.words == [
        "PARTIAL (1 module not counted): Of the work that could be counted, packing saved 18.9 % of the "
        "multiplications: 891 instead of 1,098. How much of that work was padding is unknown for 1 layer: true lengths "
        "were not given. Whether that saves time was not measured.",
        "Executed 780 of 960 padded MACs, 891 of 1,098 mults and 1,005 of 1,230 adds.",
        *("layer", "module", "mults", "calls", "rows executed / padded", "MACs", "mults saved", "mults wasted"),
        *("encoder.rnn", "LSTM 2x3", "1", "7 / 10", "420", "30.0 %", "0.0 %"),
        *("decoder", "GRU 2x3", "1", "8 / 8", "360", "0.0 %", "?"),
        *("total (partial)", "2", "15 / 18", "780", "18.9 %", "?"),
        *("useful", "useful or wasted, unknown", "saved"),
        "PARTIAL: vad.rnn (LSTM) is not counted: scripted.",
        "? = unknown: 1 padded call of decoder came without true lengths; give them with lengths=.",
        "Operations, not time: fewer operations can still take longer on a given device; --profile measures it.",
    ]
    assert found.bars == ["483 mults useful, 207 mults saved", "408 mults useful or wasted, unknown"]
    assert found.tags <= TAGS


def test_bars_have_the_widths_of_their_parts() -> None:
    text = NotebookRenderer().render(report(*LAYERS))
    widths = re.findall(r"[ ;\"](?:width): ([0-9.]+)%", text)
    # The bar against the longest (690), then its parts against itself.
    assert widths == [
        *("100.0", "70.0", "30.0"),
        *("59.1", "100.0"),
        *("59.1", "62.5", "37.5"),
        *("70.0", "85.7", "14.3"),
    ]


def test_timed_layers_get_two_columns_more() -> None:
    timed = msgspec.structs.replace(
        packed_layer("rnn", [5, 2]),
        timings=(timing("split", 0.5, "faster", 8),),
        conditions=CONDITIONS,
        best_layout="split",
    )
    words = page(timed, packed_layer("other", [1])).words
    assert words[words.index("mults wasted") + 1 :][:2] == ["best layout", "its time of padded"]
    assert words[words.index("0.50x") - 2 :][:4] == ["0.0 %", "split", "0.50x", "other"]
    assert "best layout" not in page(packed_layer("other", [1])).words


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "\"' onload=x", "&lt;", "{{ 1 + 1 }}", "\u202e\ud800"])
def test_hostile_names_are_shown_as_text(name: str) -> None:
    shown = name.encode("ascii", "backslashreplace").decode()
    found = page(packed_layer(name, [5, 2]), LayerCost(name=name, spec=GRU), uncounted=(SCRIPTED,))
    assert found.words.count(shown) == 2
    assert f"Never called: {shown}." in found.words
    assert found.tags <= TAGS


def test_a_thousand_layers_stay_small() -> None:
    layers = [packed_layer("<&" * 300 + str(n), [n, 1]) for n in range(1, 1001)]
    idle = [LayerCost(name="\"'" * 100 + str(n), spec=GRU) for n in range(1000)]
    uncounted = tuple(Uncounted(name="<" * 999 + str(n), type_name="&" * 999, reason='"' * 999) for n in range(1000))
    text = NotebookRenderer().render(report(*layers, *idle, uncounted=uncounted))
    assert len(text.encode()) < 200_000
    assert "and 1,950 more" in text
    assert "PARTIAL: 990 more are not counted." in text


def test_a_notebook_asks_the_report_itself() -> None:
    empty = CostReport()
    assert empty._repr_html_() == NotebookRenderer().render(empty)
    assert Page(empty._repr_html_()).words[0] == "No recurrent work ran, so there is nothing to judge."
    assert "table" not in Page(empty._repr_html_()).tags
