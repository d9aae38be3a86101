from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rnncost.counting import OpCount
from rnncost.counting.spec import CustomSpec
from rnncost.reporting import CostReport, LayerCost, Uncounted
from rnncost.reporting.contamination import Contamination, Difference
from rnncost.reporting.renderers.markdown import MarkdownRenderer
from rnncost.reporting.verification import Verification
from rnncost.units import printable
from tests.reporting.reports import GRU, LSTM, SCRIPTED, packed_layer, padded_layer, report
from tests.reporting.test_text import CONDITIONS, timing


def rendered(*layers: LayerCost, uncounted: tuple[Uncounted, ...] = ()) -> str:
    return MarkdownRenderer().render(report(*layers, uncounted=uncounted))


def table(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def test_a_whole_comment() -> None:
    text = rendered(packed_layer("encoder.rnn", [5, 2]), padded_layer("decoder", 2, 4), uncounted=(SCRIPTED,))
    assert text == EXPECTED


EXPECTED = """\
- **PARTIAL (1 module not counted): 18.9 % of the padded mults saved, wasted unknown (lengths not given)**
- Executed 780 of 960 padded MACs, 891 of 1,098 mults and 1,005 of 1,230 adds
- Operations, not time: fewer operations can still take longer on a given device

| layer | module | calls | rows executed / padded | MACs | mults saved | mults wasted |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
| `encoder.rnn` | LSTM 2x3 | 1 | 7 / 10 | 420 | 30.0 % | 0.0 % |
| `decoder` | GRU 2x3 | 1 | 8 / 8 | 360 | 0.0 % | ? |
| **total (partial)** |  | 2 | 15 / 18 | 780 | 18.9 % | ? |

Not counted, so that every total is partial:

- `vad.rnn` (`LSTM`): scripted

<details><summary>Notes</summary>

- ? = unknown: 1 padded call of decoder came without true lengths; give them with lengths=.

</details>
"""


def test_timed_layers_get_the_layout_to_use() -> None:
    timings = (timing("padded", 1, "same", 10), timing("packed", 1.5, "slower", 7), timing("split", 0.5, "faster", 8))
    timed = msgspec.structs.replace(
        packed_layer("rnn", [5, 2]), timings=timings, conditions=CONDITIONS, best_layout="split"
    )
    text = rendered(timed, packed_layer("other", [1]))
    assert text == TIMED


TIMED = """\
- **27.3 % of the padded mults saved, 0.0 % of the executed mults wasted on padding**
- Executed 480 of 660 padded MACs, 552 of 759 mults and 600 of 825 adds
- Time of `rnn`: `packed` takes 1.50x (1.40 to 1.60) of padded; fastest with the results of a packed run is `split`, \
0.50x (0.40 to 0.60) of padded

| layer | module | calls | rows executed / padded | MACs | mults saved | mults wasted | best layout | \
its time of padded |
| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: |
| `rnn` | LSTM 2x3 | 1 | 7 / 10 | 420 | 30.0 % | 0.0 % | `split` | 0.50x (0.40 to 0.60) |
| `other` | LSTM 2x3 | 1 | 1 / 1 | 60 | 0.0 % | 0.0 % |  |  |
| **total** |  | 2 | 8 / 11 | 480 | 27.3 % | 0.0 % |  |  |
"""


def test_a_report_of_nothing() -> None:
    assert (
        MarkdownRenderer().render(CostReport())
        == """\
- **Nothing ran that could be counted**
- Executed 0 of 0 padded MACs, 0 of 0 mults and 0 of 0 adds
- Operations, not time: fewer operations can still take longer on a given device

<details><summary>Notes</summary>

- No recurrent layer was found, so there is nothing to count.

</details>
"""
    )


def test_an_estimate_and_a_failed_proof_say_so_first() -> None:
    estimated = msgspec.structs.replace(packed_layer("a", [5, 2]), source="estimate")
    assert rendered(estimated).startswith("- **ESTIMATED, nothing was run: 30.0 % of")
    failed = msgspec.structs.replace(report(packed_layer("a", [5, 2])), verification=Verification(differences=("x",)))
    assert MarkdownRenderer().render(failed).startswith("- **NOT VERIFIED: 30.0 % of")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("encoder.rnn", "`encoder.rnn`"),
        ("", "`(no name)`"),
        ("a|b`c", "<code>a&#124;b&#96;c</code>"),
        ("a\\|b", "<code>a&#92;&#124;b</code>"),
        ("`a`", "`` `a` ``"),
        ("a``b", "```a``b```"),
        ("a\nb\r\u2028", "`a\\nb\\r\\u2028`"),
        ("<script>alert(1)</script>", "`<script>alert(1)</script>`"),
        ("@everyone #1", "`@everyone #1`"),
        ("\u202egnp.exe", "`\\u202egnp.exe`"),
        ("a" * 50 + "b" * 50, f"`{'a' * 28} .. {'b' * 28}`"),
    ],
)
def test_hostile_names_are_shown_as_text(name: str, shown: str) -> None:
    assert table(rendered(packed_layer(name, [5, 2])))[2].startswith(f"| {shown} | LSTM 2x3 | 1 |")


def test_hostile_titles_and_reasons_are_shown_as_text() -> None:
    spec = CustomSpec(title="<b>|@me #1 *x* _y_ a_b https://x.y\n", row=OpCount(matmul_mults=1))
    layer = msgspec.structs.replace(packed_layer("a", [5, 2]), spec=spec)
    found = Uncounted(name="@you", type_name="<i>", reason="see [this](javascript:x) `now` www.x.y")
    text = rendered(layer, uncounted=(found,))
    assert cells(table(text)[2])[1] == (
        "&#60;b&#62;&#124;&#64;\u200bme &#35;\u200b1 &#42;x&#42; &#95;y&#95; a_b https://\u200bx.y&#92;n"
    )
    assert "- `@you` (`<i>`): see &#91;this&#93;(javascript:x) &#96;now&#96; www.\u200bx.y\n" in text


class Cells(HTMLParser):
    """The text of each cell of a page, and all tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


hostile = st.text(st.sampled_from("ab `|\\*_<>[]()!&;#@~$.:/-\n"), max_size=30)


@given(hostile | st.text(max_size=5))
def test_a_parser_of_markdown_shows_names_as_they_are(name: str) -> None:
    # rich brings the parser along.
    layer = msgspec.structs.replace(
        packed_layer(name, [5, 2]), spec=CustomSpec(title=name, row=OpCount(matmul_mults=1))
    )
    page = Cells(MarkdownIt("commonmark").enable("table").render("\n".join(table(rendered(layer)))))
    assert len(page.cells) == 3 * 7
    shown = [cell.replace("\u200b", "").strip() for cell in page.cells[7:9]]
    assert shown == [printable(name).strip() if name else "(no name)", printable(name).strip()]
    assert page.tags <= {"table", "thead", "tbody", "tr", "th", "td", "code", "strong"}


def test_a_thousand_layers_stay_below_the_limit_of_a_comment() -> None:
    layers = [packed_layer(f"encoder.{'layers.' * 100}{n}", [n, 1]) for n in range(1, 1001)]
    wasteful = [padded_layer(f"decoder.{n}", 2, 9, [9, 1]) for n in range(100)]
    idle = [LayerCost(name=f"idle.{n}", spec=GRU) for n in range(1000)]
    uncounted = tuple(Uncounted(name=f"gone.{n}", type_name="LSTM", reason="scripted") for n in range(1000))
    text = rendered(*layers, *wasteful, *idle, uncounted=uncounted)
    assert len(text) < 10_000
    rows = table(text)
    assert len(rows) == 2 + 30 + 2
    # The 30 of most mults are those of 971 to 1,000 steps.
    assert cells(rows[2])[3] == "1,001 / 2,000"
    assert cells(rows[31])[3] == "972 / 1,942"
    assert cells(rows[32])[0] == "and 2,070 more"
    # 1 + 2 + ... + 970 and 970 rows of one step, and 100 rectangles of 18.
    assert cells(rows[32])[3] == "474 k / 944 k"
    assert sum(range(1, 971)) + 970 + 1_800 == 473_705
    assert "- and 990 more\n" in text
    assert "- And 95 more notes.\n" in text


def test_no_report_outgrows_a_comment() -> None:
    spec = CustomSpec(title="@" * 999, row=OpCount(matmul_mults=1))
    layers = [
        msgspec.structs.replace(packed_layer("|" * 999 + str(n), [n, 1]), spec=spec, untimed="@" * 999)
        for n in range(1, 1001)
    ]
    uncounted = tuple(Uncounted(name="|" * 999 + str(n), type_name="|" * 999, reason="@" * 999) for n in range(1000))
    checked = tuple(Contamination(name="@" * 999, unchecked="@" * 999) for _ in range(1000))
    whole = msgspec.structs.replace(report(*layers, uncounted=uncounted), contaminations=checked)
    assert 50_000 < len(MarkdownRenderer().render(whole)) < 65_536


def test_what_padding_does_to_results_is_a_note() -> None:
    differences = [
        Difference(what=what, layer=layer, direction="forward", largest=largest, sequences=sequences)
        for what, layer, largest, sequences in (
            *(("output", 1, 0.5, 2), ("hidden", 0, 0.25, 1), ("hidden", 1, 0.75, 1)),
            *(("cell", 0, 1e-9, 0), ("cell", 1, 2e-9, 0)),
        )
    ]
    checked = Contamination(name="a@b", spec=LSTM, lengths=(5, 2), tolerance=1e-6, differences=tuple(differences))
    lost = Contamination(name="lost", unchecked="it is no layer of torch")
    whole = msgspec.structs.replace(report(packed_layer("a@b", [5, 2])), contaminations=(checked, lost))
    assert (
        MarkdownRenderer()
        .render(whole)
        .endswith(
            """
- a&#64;\u200bb, padded against packed: outputs at real steps differ by up to 0.5, final hidden states differ by up to \
0.75, final cell states equal.
- lost is not checked: it is no layer of torch.

</details>
"""
        )
    )


def test_thirty_layers_are_all_shown_in_their_order() -> None:
    rows = table(rendered(*(packed_layer(f"rnn{n}", [n]) for n in range(1, 31))))
    assert [cells(row)[0] for row in rows[2:-1]] == [f"`rnn{n}`" for n in range(1, 31)]
