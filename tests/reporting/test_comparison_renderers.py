"""How comparisons look, and that names of any kind are text in every form."""

from __future__ import annotations

import html.parser
import io
import json
import re
from pathlib import Path

import msgspec
import pytest
from markdown_it import MarkdownIt

from rnncost.counting import CustomSpec, OpCount, RnnSpec
from rnncost.errors import ReportFormatError
from rnncost.reporting import Comparison, LayerCost, Uncounted, compare
from rnncost.reporting.renderers.comparison import (
    COMPARISON_FORMATS,
    comparison_renderer_for_format,
    comparison_renderer_for_path,
)
from rnncost.units import printable
from tests.reporting.reports import GRU, SCRIPTED, packed_layer, padded_layer, report

UNBIASED = RnnSpec(kind="gru", input_size=2, hidden_size=3, bias=False)
BASE = report(
    packed_layer("encoder.rnn", [5, 2]),
    packed_layer("old", [3]),
    packed_layer("gone", [1], GRU),
    padded_layer("dec", 2, 4, [4, 1]),
)
CURRENT = report(
    packed_layer("encoder.rnn", [6, 2]),
    packed_layer("new", [3]),
    padded_layer("dec", 2, 4),
    packed_layer("extra", [2], UNBIASED),
    uncounted=(SCRIPTED,),
)
COMPARED = compare(BASE, CURRENT, fail_on="mults:0%,wasted:5%")


def render(form: str, comparison: Comparison) -> str:
    return comparison_renderer_for_format(form).render(comparison)


def test_the_whole_text() -> None:
    text = render("text", COMPARED)
    assert text == TEXT
    assert max(map(len, text.splitlines())) <= 80


TEXT = """\
REGRESSION, limit mults:0%,wasted:5%: PARTIAL: 1,149 -> 1,269 mults (+10.4 %);
layers: 2 changed, 1 added, 1 removed, 1 renamed.

                                      rows  rows   mults  mults    mults  wasted
layer                      status   before   now  before    now   change     now
────────────────────────────────────────────────────────────────────────────────
encoder.rnn                changed       7     8     483    552  +14.3 %       0
LSTM 2x3
old -> new                 renamed       3     3     207    207    0.0 %       0
LSTM 2x3
dec                        changed       8     8     408    408    0.0 %       ?
GRU 2x3
extra                      added         -     2       -    102                0
GRU 2x3 no bias
gone                       removed       1     -      51      -                -
GRU 2x3

total (partial)        baseline         current      difference           change
────────────────────────────────────────────────────────────────────────────────
calls                         4               4               0            0.0 %
sequences                     6               6               0            0.0 %
rows                         19              21               2          +10.5 %
MACs                      1,005           1,110             105          +10.4 %
mults                     1,149           1,269             120          +10.4 %
adds                      1,290           1,389              99           +7.7 %
activations                 231             255              24          +10.4 %
wasted mults                153               ?               ?                ?

* REGRESSION cannot be guaranteed, since work is newly uncounted: vad.rnn (LSTM)
  is not counted: scripted
* REGRESSION in total: 1,149 -> 1,269 mults (+10.4 %), limit 0%
* REGRESSION in total: 153 -> ? wasted mults (cannot be told), limit 5%
* REGRESSION encoder.rnn (LSTM 2x3): 483 -> 552 mults (+14.3 %), limit 0%
* REGRESSION dec (GRU 2x3): 153 -> ? wasted mults (cannot be told), limit 5%
* PARTIAL: in the current report, vad.rnn (LSTM) is not counted: scripted.
* ? = unknown: padded calls of the current report came without true lengths;
  give them with lengths=.
"""


def test_the_whole_markdown() -> None:
    before = report(packed_layer("encoder.rnn", [5, 2]), packed_layer("dec", [3], GRU))
    after = report(packed_layer("encoder.rnn", [6, 2]), packed_layer("dec", [3], GRU))
    assert render("markdown", compare(before, after)) == MARKDOWN


MARKDOWN = """\
**REGRESSION, limit mults:0%**

636 → 705 mults (+10.8 %); layers: 1 changed, 1 same.

MACs 555 → 615 (+10.8 %); mults 636 → 705 (+10.8 %); adds 705 → 780 (+10.6 %); wasted mults 0 → 0 (0.0 %)

| layer | status | rows | mults | change | wasted mults |
| --- | --- | ---: | ---: | ---: | ---: |
| `encoder.rnn` LSTM 2x3 | changed | 7 → 8 | 483 → 552 | +14.3 % | 0 → 0 |

- **REGRESSION** in total: 636 → 705 mults (+10.8 %), limit 0%
- **REGRESSION** encoder.rnn (LSTM 2x3): 483 → 552 mults (+14.3 %), limit 0%
"""


def test_markdown_of_equal_reports_has_no_table() -> None:
    text = render("markdown", compare(BASE, BASE))
    assert text.startswith("**No regression, limit mults:0%**\n")
    assert "|" not in text
    assert "layers: 4 same." in text


@pytest.mark.parametrize("name", ["encoder.layers.", "@" * 999, "|:" * 500])
def test_no_markdown_outgrows_a_comment(name: str) -> None:
    lost = tuple(Uncounted(name=f"{name}{n}", type_name=name, reason=name) for n in range(1000))
    before = report(*(packed_layer(f"{name}{n}", [1]) for n in range(1000)))
    after = report(*(packed_layer(f"{name}{n}", [n + 2]) for n in range(1000)), uncounted=lost)
    text = render("markdown", compare(before, after))
    assert len(text) < 65_536
    rows = [line for line in text.splitlines() if line.startswith("| <code>") or line.startswith("| `")]
    # The layer of most growth, of 1,001 steps, stands first, and those left out are counted.
    assert "| 1 → 1,001 |" in rows[0]
    assert f"| and {1000 - len(rows):,} more |  |  |  |  |  |" in text
    regressions = text.count("**REGRESSION** ")
    # A thousand layers, the total and a thousand uncounted modules.
    assert f"- and {2001 - regressions:,} more\n" in text


def test_json_holds_integers_verdict_and_sentences() -> None:
    document = json.loads(render("json", COMPARED))
    assert (document["comparison_version"], document["regressed"], document["partial"]) == (1, True, True)
    assert document["fail_on"] == "mults:0%,wasted:5%"
    assert [layer["status"] for layer in document["layers"]] == ["changed", "renamed", "changed", "added", "removed"]
    assert document["layers"][0]["current"]["mults"] == 552
    assert document["layers"][1]["old_name"] == "old"
    assert document["layers"][3]["baseline"] is None
    assert (document["baseline"]["wasted"], document["current"]["wasted"]) == (153, None)
    assert document["regressions"][1] == {
        "metric": "mults",
        "limit": "0%",
        "layer": None,
        "baseline": 1149,
        "current": 1269,
        "reason": "",
        "message": "in total: 1,149 -> 1,269 mults (+10.4 %), limit 0%",
    }
    assert json.loads(render("json", compare(BASE, CURRENT, fail_on="none")))["regressed"] is False


class Page(html.parser.HTMLParser):
    """The tags, the attributes, and the text outside of the style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] != ["style"]:
            self.text += data


def test_the_page_needs_nothing_else() -> None:
    source = render("html", COMPARED)
    page = Page(source)
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert {name for name, _ in page.attributes} == {"lang", "charset", "name", "content", "http-equiv", "class"}
    assert "prefers-color-scheme: dark" in source
    assert "@media print" in source
    assert "url(" not in source
    for shown in (
        "REGRESSION, limit mults:0%,wasted:5%",
        "encoder.rnn",
        "old -> new",
        "1,149",
        "+14.3 %",
        "Total (part",
    ):
        assert shown in page.text


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a|b`c``d",
    "x\n| --- |\n# head",
    "@maintainer #1 www.example.com http://example.com :tada:",
    "[link](javascript:x) ![i](x) ~~s~~ **b** _e_ $m$ &lt;",
    "\u202egnp.\u2066",
    "{{ 7 * 7 }}{% raw %}",
    "\x1b[31m\x07",
    "[bold]rich[/bold]",
)


def hostile(name: str) -> Comparison:
    spec = CustomSpec(title=name, row=OpCount(matmul_mults=1))
    call = packed_layer("x", [2]).calls
    layer = LayerCost(name=name, spec=spec, calls=call)
    renamed = msgspec.structs.replace(layer, name=f"{name}2")
    lost = Uncounted(name=name, type_name=name, reason=name)
    return compare(report(layer), report(renamed, packed_layer(f"{name}3", [1]), uncounted=(lost,)))


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_hostile_names_are_text_in_every_form(form: str, name: str) -> None:
    rendered = render(form, hostile(name))
    harmless = render(form, hostile("y" * len(name)))
    for steering in "\u202e\u2066\x1b\x07":
        assert steering not in rendered
    if form == "html":
        # Not a tag and not an attribute more than with a harmless name.
        assert Page(rendered).tags == Page(harmless).tags
        assert Page(rendered).attributes == Page(harmless).attributes
        if name.isprintable():
            assert f"{name} -> {name}2" in Page(rendered).text
    if form == "markdown":
        assert len(rendered.splitlines()) == len(harmless.splitlines())
        marked = re.sub(r"&#[0-9]+;", "", rendered)
        for markup in ("<script", "<img", "@m", "#1", "www.", "http:", ":tada", "](", "**b", "_e", "$m", "``", "{{"):
            assert markup not in marked
        rows = [line for line in rendered.splitlines() if line.startswith("|")]
        assert {row.count("|") for row in rows} == {7}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_markdown_reader_sees_hostile_names_as_text(name: str) -> None:
    markdown = MarkdownIt("commonmark").enable("table")
    page = Page(markdown.render(render("markdown", hostile(name))))
    harmless = Page(markdown.render(render("markdown", hostile("a@b"))))
    assert set(page.tags) <= set(harmless.tags)
    assert page.tags.count("td") == harmless.tags.count("td") == 12
    assert f"{printable(name)} → {printable(name)}2" in page.text


def test_a_message_cannot_steer_a_terminal() -> None:
    message = hostile("\x1b[31m\u202e\nx").message
    assert "\x1b" not in message
    assert "\u202e" not in message


def test_huge_figures_and_long_names_fit_80_columns() -> None:
    name = "encoder." * 12 + "rnn"
    comparison = compare(report(packed_layer(name, [10**15] * 1000)), report(packed_layer(name, [10**16] * 1000)))
    assert max(map(len, render("text", comparison).splitlines())) <= 80


def test_print_and_save(tmp_path: Path) -> None:
    stream = io.StringIO()
    COMPARED.print(stream)
    assert stream.getvalue() == TEXT
    for name, suffix in zip(COMPARISON_FORMATS, (".txt", ".md", ".json", ".html"), strict=True):
        COMPARED.save(tmp_path / f"c{suffix}")
        assert (tmp_path / f"c{suffix}").read_text(encoding="utf-8") == render(name, COMPARED)
    with pytest.raises(ReportFormatError, match=r"suffix '.csv'; use one of .txt, .md, .json, .html"):
        comparison_renderer_for_path("c.csv")
    with pytest.raises(ReportFormatError, match="no format of a comparison 'xml'"):
        comparison_renderer_for_format("xml")


def test_a_stream_that_lacks_characters_gets_others() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    COMPARED.print(stream)
    stream.flush()
    assert raw.getvalue().decode("ascii") == TEXT.replace("─", "-")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    COMPARED.print(stream)
    assert "\x1b[1;31mREGRESSION" in stream.getvalue()


@pytest.mark.parametrize("columns", ["20", "32", "40", "60", "79"])
def test_a_narrow_terminal_gets_stacked_figures(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", "25")  # of a dumb terminal rich believes both or neither
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    COMPARED.print(stream)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= max(32, int(columns))
    if columns == "60":
        text = "\n".join(line.rstrip() for line in lines)
        assert STACKED in text
        assert "total (partial)\n  calls 4 -> 4 (0.0 %)\n" in text


STACKED = """
encoder.rnn
LSTM 2x3
  changed; rows 7 -> 8
  mults 483 -> 552 (+14.3 %)
  wasted now 0

old -> new
LSTM 2x3
  renamed; rows 3 -> 3
  mults 207 -> 207 (0.0 %)
  wasted now 0
"""
