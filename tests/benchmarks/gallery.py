"""Draws the saved sample reports again, and the gallery that shows them.

Run it with ``python -m tests.benchmarks.gallery``. From each report in ``reports/``, a JSON file, it draws
the HTML page and the Markdown beside it and pictures of its charts, and then writes ``reports/README.md``. Where
Playwright and a Chromium are installed it also takes pictures of the page of the first sample, in light and in dark.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import rnncost
from rnncost.errors import ReportFormatError
from rnncost.reporting.renderers.charts import CHARTS
from rnncost.reporting.verdict import verdict

REPORTS = Path(__file__).parents[2] / "reports"
README = REPORTS / "README.md"
PICTURES = REPORTS / "pictures"
REAL_MODELS = REPORTS / "real_models.md"
DRAWN = (".html", ".md")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_PAGE_WIDTH = 1100
# The page of this sample is shown whole, and its top in the project's README.
_SHOWN_PAGE = "vowels"
_SHOWN_CHARTS = {_SHOWN_PAGE: ("layouts",)}
_CHARTS_OF_OTHERS = ("operations", "occupancy")
_ABOUT = {
    "vowels": "The example that rnncost ships: 270 utterances of 7 to 26 steps go through a bidirectional LSTM, "
    "packed, in batches of 30 in file order, forward and backward. `--profile` then ran the layer on batches that it "
    "saw, in several layouts, on one thread (`OMP_NUM_THREADS=1`).",
}
# What each table measured; its command stands in the table itself.
_TABLES = {
    "real_models": "Every count of the models above of other libraries against what torch dispatched.",
    "peers": "What other counters say of the same models, padded and packed.",
    "layouts": "How long padded, packed, bucketed and split layouts take, and whether the advice held up.",
    "same": "How often the clock finds a difference between a layout and itself.",
    "plugin": "What the pytest plugin adds to a run that does not use it.",
    "hooks": "What counting adds to the time of a forward call.",
    "estimates": "How long an estimate of a data set of 31,102 lengths takes.",
}


class Sample(NamedTuple):
    """A saved report that the gallery shows, and what the model was."""

    path: Path
    report: rnncost.CostReport
    about: str

    @property
    def name(self) -> str:
        return self.path.stem


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    for sample in samples():
        for suffix in DRAWN:
            sample.report.save(sample.path.with_suffix(suffix))
        for chart in _charts(sample):
            _save_chart(sample, chart)
        if sample.name == _SHOWN_PAGE:
            _photograph(sample)
    README.write_text(readme(), encoding="utf-8")


def samples() -> list[Sample]:
    """The reports below ``reports/``, the example first, other people's models in the order of their table."""
    about = {**_ABOUT, **_sections(REAL_MODELS)}
    found = [
        Sample(path=path, report=rnncost.CostReport.load(path), about=about[path.stem])
        for path in REPORTS.rglob("*.json")
        if _is_report(path)
    ]
    return sorted(found, key=lambda sample: list(about).index(sample.name))


def _is_report(path: Path) -> bool:
    document = json.loads(path.read_text(encoding="utf-8"))
    return isinstance(document, dict) and {"schema_version", "layers"} <= document.keys()


def _sections(path: Path) -> dict[str, str]:
    """Text under each heading of a Markdown file."""
    sections = path.read_text(encoding="utf-8").split("\n## ")[1:]
    return {name: text.strip() for name, _, text in (section.partition("\n") for section in sections)}


def _charts(sample: Sample) -> tuple[str, ...]:
    return _SHOWN_CHARTS.get(sample.name, _CHARTS_OF_OTHERS)


def _picture(sample: Sample, what: str) -> Path:
    return PICTURES / f"{sample.name}-{what}.png"


def _save_chart(sample: Sample, chart: str) -> None:
    target = _picture(sample, chart)
    target.unlink(missing_ok=True)
    try:
        sample.report.save(target, chart=chart)
    except ReportFormatError:  # the report has nothing to draw in it
        return


def _photograph(sample: Sample) -> None:
    browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        browser = None
    if browser is None:
        print("without Playwright and a Chromium, the pictures of the page stay as they are")
        return
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = chromium.new_page(viewport={"width": _PAGE_WIDTH, "height": 800}, color_scheme=scheme)
            page.goto(sample.path.with_suffix(".html").as_uri())
            for place in page.locator(".chart").all():
                place.locator("svg.marks").wait_for()
            page.screenshot(path=_picture(sample, scheme), full_page=True)
            # Down to the pictures of the batches.
            lowest = page.locator("#occupancy").evaluate("section => section.getBoundingClientRect().bottom")
            page.screenshot(
                path=_picture(sample, f"top-{scheme}"),
                full_page=True,
                clip={"x": 0, "y": 0, "width": _PAGE_WIDTH, "height": lowest},
            )
        chromium.close()


def readme() -> str:
    """The gallery, from the reports and the pictures that are there."""
    shown = samples()
    tables = [f"- [{_title(path)}]({path.name}): {_TABLES.get(path.stem, '')} {_command(path)}" for path in _tables()]
    parts = [_HEADER, *(block for sample in shown for block in _sample(sample)), "## Tables", "\n".join(tables)]
    return "\n\n".join(parts) + "\n"


def _tables() -> list[Path]:
    """The other Markdown files, those known here first."""
    drawn = {sample.path.with_suffix(".md") for sample in samples()}
    order = list(_TABLES)
    found = sorted(path for path in REPORTS.glob("*.md") if path != README and path not in drawn)
    return sorted(found, key=lambda path: order.index(path.stem) if path.stem in order else len(order))


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _command(path: Path) -> str:
    found = re.search(r"Written by (`[^`]+`)", path.read_text(encoding="utf-8"))
    return f"Command: {found[1]}." if found else ""


def _sample(sample: Sample) -> Iterator[str]:
    yield f"## {sample.name}"
    yield sample.about
    yield f"> {verdict(sample.report)}"
    files = ((kind, sample.path.with_suffix(suffix)) for kind, suffix in _KINDS.items())
    links = ", ".join(f"[{kind}]({_relative(path)})" for kind, path in files)
    commands = "; ".join(f"`{command}`" for command in sample.report.commands)
    yield f"{links}. Made by {commands}."
    light, dark = _picture(sample, "light"), _picture(sample, "dark")
    if light.exists() and dark.exists():
        yield (
            f'<a href="{_relative(light)}"><picture>'
            f'<source media="(prefers-color-scheme: dark)" srcset="{_relative(dark)}">'
            f'<img src="{_relative(light)}" alt="The HTML page of {sample.name}" width="800"></picture></a>'
        )
    for chart in _charts(sample):
        path, (_, shows) = _picture(sample, chart), CHARTS[chart]
        if path.exists():
            yield f'<img src="{_relative(path)}" alt="{sample.name}: {shows}" width="640">'


def _relative(path: Path) -> str:
    return Path(os.path.relpath(path, REPORTS)).as_posix()


_KINDS = {"HTML": ".html", "Markdown": ".md", "JSON": ".json"}
_HEADER = """# Sample reports

Written by `python -m tests.benchmarks.gallery` out of the JSON files here, which the commands named below made.
`rnncost show FILE.json -o FILE.html` draws any of them again. A page is one file: download it and open it in a
browser; it asks nothing of the network."""


if __name__ == "__main__":
    main()
