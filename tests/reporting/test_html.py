"""The page in a real browser: headless Chromium, where Debian's package or another one is installed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rnncost.counting.sample import BatchSample
from rnncost.counting.shape import BatchShape
from rnncost.reporting import CostReport, LayerCost, Uncounted
from rnncost.reporting.renderers.html import HtmlRenderer
from rnncost.reporting.timing import LayoutTiming, RunTime
from tests.reporting.reports import packed_layer, padded_layer, report
from tests.reporting.test_text import CONDITIONS

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "</script><img src=x onerror='window.hacked = 1'>",
    "\"quoted\" & 'single'",
    "{{ 7 * 7 }} ${8 * 8} <!--",
    "\u202eright-to-left",
    "javascript:window.hacked = 1",
)
LARGEST = 1_500_000


def timing(layout: str, ratio: float, *, rows: int, exact: bool = True) -> LayoutTiming:
    return LayoutTiming(
        layout=layout,
        exact=exact,
        rows=rows,
        forward_s=ratio,
        backward_s=ratio,
        total_s=2 * ratio,
        ratio_to_padded=ratio,
        ratio_low=ratio * 0.9,
        ratio_high=ratio * 1.1,
        verdict="same" if ratio == 1 else "slower" if ratio > 1 else "faster",
    )


def timed_layer(name: str) -> LayerCost:
    timings = (
        timing("padded", 1.0, rows=10, exact=False),
        timing("packed", 1.5, rows=7),
        timing("split", 0.5, rows=8),
    )
    return msgspec.structs.replace(
        packed_layer(name, [5, 2]), timings=timings, conditions=CONDITIONS, best_layout="split"
    )


def large_report() -> CostReport:
    layers = [packed_layer(name, [9, 4, number + 1]) for number, name in enumerate(HOSTILE)]
    layers += [
        padded_layer(f"encoder.blocks.{number}.rnn", 8, 5 + number % 90) for number in range(1000 - len(HOSTILE))
    ]
    return report(*layers)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no Chromium: apt install chromium, or name one in CHROMIUM")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


class Opened:
    """A page that was opened, with all that it said and asked for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("dialog", self._dismiss)
        self.page.goto(path.as_uri())
        self.page.wait_for_function("[...document.querySelectorAll('.chart')].every((place) => place.dataset.drawn)")

    def _dismiss(self, dialog: Any) -> None:
        self.said.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def column(self, number: int) -> list[str]:
        cells = self.page.locator(f"#layers tbody tr td:nth-child({number})")
        texts: list[str] = cells.all_text_contents()
        return texts

    def sort_by(self, heading: str) -> str | None:
        button = self.page.get_by_role("button", name=heading, exact=True)
        button.click()
        order: str | None = button.locator("xpath=..").get_attribute("aria-sort")
        return order


def write(tmp_path: Path, shown: CostReport) -> Path:
    path = tmp_path / "report.html"
    shown.save(path)
    return path


def test_the_page_opens_without_an_error_and_without_the_network(browser: Any, tmp_path: Path) -> None:
    path = write(tmp_path, report(timed_layer("encoder.rnn"), packed_layer("decoder", [7, 7, 3])))
    opened = Opened(browser, path)
    assert opened.said == []
    assert opened.asked == [path.as_uri()]
    page = opened.page
    sections = page.locator("section[id]").evaluate_all("all => all.map((section) => section.id)")
    assert sections == ["operations", "occupancy", "lengths", "savings", "layouts", "layers", "notes", "environment"]
    assert page.locator(".chart svg.marks").count() == 6
    assert "Packing saved" in page.locator(".verdict").text_content()
    assert [text.split()[0] for text in page.locator(".figures dt").all_text_contents()] == [
        *("saved", "wasted", "time", "layers")
    ]


def test_every_mark_has_a_tooltip(browser: Any, tmp_path: Path) -> None:
    opened = Opened(browser, write(tmp_path, report(timed_layer("encoder.rnn"))))
    for section, expected in (
        ("operations", "multiplications483"),  # 7 rows of 69
        ("occupancy", "steps1 to 5real100%"),
        ("lengths", "steps"),
        ("savings", "operations saved"),
        ("layouts", "interval"),
    ):
        marks = opened.page.locator(f"#{section} .mark-rect path, #{section} .mark-symbol path")
        marks.first.hover()
        tooltip = opened.page.locator("#vg-tooltip-element.visible")
        tooltip.wait_for()
        assert expected in tooltip.text_content(), section
        opened.page.mouse.move(0, 0)
    assert opened.said == []


def test_the_table_sorts_by_numbers_and_by_names(browser: Any, tmp_path: Path) -> None:
    layers = [packed_layer("b10", [3] * 400), packed_layer("b9", [2] * 30), padded_layer("a", 500, 7)]
    opened = Opened(browser, write(tmp_path, report(*layers)))
    rows_executed = 4
    # As it opens: the most executed work first.
    assert opened.column(rows_executed) == ["3,500", "1,200", "60"]
    assert opened.sort_by("rows executed") == "descending"
    assert opened.column(rows_executed) == ["3,500", "1,200", "60"]
    assert opened.sort_by("rows executed") == "ascending"
    assert opened.column(rows_executed) == ["60", "1,200", "3,500"]
    assert opened.sort_by("layer") == "ascending"
    assert opened.column(1) == ["a", "b9", "b10"]
    # What is unknown stands behind all that is known.
    assert opened.sort_by("wasted mults") == "descending"
    assert opened.column(10)[-1] == "?"
    assert opened.page.locator("th[aria-sort]").count() == 1


def test_seconds_of_the_run_stand_in_the_table(browser: Any, tmp_path: Path) -> None:
    time = RunTime(device="cpu", forward_calls=2, forward_s=0.25, backward_calls=0, backward_s=0.0)
    timed = msgspec.structs.replace(packed_layer("timed", [9, 9]), run_time=time)
    opened = Opened(browser, write(tmp_path, report(timed, packed_layer("untimed", [2]))))
    assert opened.column(11) == ["0.250000", "?"]
    assert opened.column(12) == ["?", "?"]
    assert opened.sort_by("forward s in this run") == "descending"
    assert opened.column(1) == ["timed", "untimed"]


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_light_and_dark(scheme: str, dark: bool, browser: Any, tmp_path: Path) -> None:
    opened = Opened(browser, write(tmp_path, report(timed_layer("rnn"))), color_scheme=scheme)

    def brightness(selector: str, style: str) -> float:
        color = opened.page.locator(selector).first.evaluate(f"element => getComputedStyle(element).{style}")
        return sum(map(float, re.findall(r"[0-9.]+", color)[:3])) / (3 * 255)

    paper = brightness("body", "backgroundColor")
    assert (paper < 0.2) is dark
    # Text of the page and of the charts stands out from the paper.
    for selector, style in ((".verdict", "color"), (".chart svg .role-axis-label text", "fill")):
        assert abs(brightness(selector, style) - paper) > 0.6, selector
    opened.page.emulate_media(media="print", color_scheme=scheme)
    assert brightness("body", "backgroundColor") > 0.9
    assert brightness(".verdict", "color") < 0.2


def test_a_thousand_layers_open_folded(browser: Any, tmp_path: Path) -> None:
    path = write(tmp_path, large_report())
    assert path.stat().st_size < LARGEST
    opened = Opened(browser, path)
    assert opened.said == []
    rows = opened.page.locator("#layers tbody tr")
    assert rows.count() == 1000
    assert opened.page.locator("#layers tbody tr:visible").count() == 50
    opened.page.get_by_role("button", name="Show all 1,000 layers").click()
    assert opened.page.locator("#layers tbody tr:visible").count() == 1000
    assert opened.page.locator("#operations .mark-rect path").count() <= 4 * 25


def test_hostile_names_are_text(browser: Any, tmp_path: Path) -> None:
    named = [packed_layer(name, [5, 2]) for name in HOSTILE]
    lost = Uncounted(name=HOSTILE[0], type_name=HOSTILE[1], reason=HOSTILE[2])
    timed = timed_layer(HOSTILE[1])
    opened = Opened(browser, write(tmp_path, report(*named[2:], timed, named[0], uncounted=(lost,))))
    assert opened.said == []
    assert opened.page.evaluate("window.hacked") is None
    shown = set(opened.column(1))
    assert {name for name in HOSTILE if name.isprintable()} <= shown
    assert "\\u202eright-to-left" in shown
    assert opened.page.locator("main script, main img").count() == 0
    labels = "".join(opened.page.locator("#operations svg text").all_text_contents())
    assert HOSTILE[0] in labels


def test_the_size_does_not_grow_with_the_batches() -> None:
    sizes = []
    for batches in (40, 4000):
        layer = packed_layer("rnn", [5, 2])
        shape = BatchShape.from_lengths(list(range(1, 200)))
        samples = tuple(BatchSample(priority=number, shape=shape) for number in range(32))
        calls = tuple(
            msgspec.structs.replace(
                call, forward=sum((call.forward for _ in range(batches)), start=type(call.forward)())
            )
            for call in layer.calls
        )
        grown = msgspec.structs.replace(layer, calls=calls, samples=samples)
        sizes.append(len(HtmlRenderer().render(report(grown))))
    assert max(sizes) < LARGEST
    # More digits are all that more batches bring.
    assert sizes[1] - sizes[0] < 500


def test_reports_of_nothing_and_of_the_unknown(browser: Any, tmp_path: Path) -> None:
    empty = Opened(browser, write(tmp_path, report()))
    assert (empty.said, empty.page.locator(".chart").count()) == ([], 0)
    assert "nothing to judge" in empty.page.locator(".verdict").text_content()
    lost = Uncounted(name="encoder", type_name="ScriptModule", reason="it is scripted")
    unknown = Opened(browser, write(tmp_path, report(padded_layer("rnn", 3, 5), uncounted=(lost,))))
    assert unknown.said == []
    assert "PARTIAL" in unknown.page.locator(".doubts").text_content()
    assert "unknown for 1 layer" in unknown.page.locator(".verdict").text_content()
    assert unknown.page.locator(".figures dd.value").all_text_contents()[1] == "?"
    assert "encoder (ScriptModule) is not counted" in unknown.page.locator("#notes").text_content()
