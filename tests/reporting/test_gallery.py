"""The sample reports in ``reports/`` are what this rnncost draws, and the gallery shows what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from rnncost.reporting.renderers import html, renderer_for_format
from rnncost.reporting.schema import report_schema
from tests.benchmarks import gallery

SAMPLES = gallery.samples()
LIBRARY = "{ the library of the charts }"
AGAIN = "draw it again: python -m tests.benchmarks.gallery"
# What a machine's own paths begin with.
ABSOLUTE = re.compile(r"(?<![\w.:/<])/(?:home|root|tmp|work|usr|opt|var|mnt|Users)/|[A-Z]:\\")

every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=[sample.name for sample in SAMPLES])


def test_the_samples_are_the_example_and_seven_models() -> None:
    assert [sample.name for sample in SAMPLES] == [
        *("vowels", "stanza_tagger", "stanza_recurrent_dropout", "flair_tagger"),
        *("pyg_lstm_aggregation", "silero_vad", "sru_packed", "torchrl_lstm"),
    ]


@every_sample
def test_a_sample_is_a_report_of_this_schema(sample: gallery.Sample) -> None:
    text = sample.path.read_text(encoding="utf-8")
    jsonschema.validate(json.loads(text), report_schema())
    assert renderer_for_format("json").render(sample.report) == text


@every_sample
def test_a_sample_names_the_command_that_made_it(sample: gallery.Sample) -> None:
    assert len(sample.report.commands) == 1
    assert sample.report.commands[0].startswith(("rnncost report ", "python -m tests.benchmarks."))


@every_sample
def test_its_markdown_is_that_of_the_report(sample: gallery.Sample) -> None:
    drawn = renderer_for_format("markdown").render(sample.report)
    assert sample.path.with_suffix(".md").read_text(encoding="utf-8") == drawn, AGAIN


@every_sample
def test_its_page_is_that_of_the_report(sample: gallery.Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "_chart_library", lambda: LIBRARY)
    before, found, after = renderer_for_format("html").render(sample.report).partition(LIBRARY)
    page = sample.path.with_suffix(".html").read_text(encoding="utf-8")
    library = page.removeprefix(before).removesuffix(after)
    assert page == before + library + after, AGAIN
    # The library is vl-convert's; a page without charts has none.
    assert ("vegaEmbed" in library) is bool(found)
    assert "</script" not in library


def test_the_gallery_is_made_of_what_is_there() -> None:
    assert gallery.README.read_text(encoding="utf-8") == gallery.readme(), AGAIN


def linked(page: Path) -> set[Path]:
    """The files beside this Markdown file that it links to or shows."""
    found = re.findall(r'\]\(([^)]+)\)|(?:src|srcset|href)="([^"]+)"', page.read_text(encoding="utf-8"))
    return {page.parent / link for pair in found for link in pair if link and "://" not in link}


def test_what_the_gallery_links_to_is_there_and_all_that_is_there_is_linked_to() -> None:
    shown = linked(gallery.README) | linked(gallery.REPORTS.parent / "README.md")
    assert {path for path in shown if not path.is_file()} == set()
    there = {path for path in gallery.REPORTS.rglob("*") if path.suffix in (".html", ".md", ".png")}
    assert there | {sample.path for sample in SAMPLES} <= shown | {gallery.README}


def test_no_report_holds_a_path_of_the_machine_that_made_it() -> None:
    texts = [path for path in gallery.REPORTS.rglob("*") if path.suffix in (".json", ".md", ".csv")]
    assert len(texts) > 2 * len(SAMPLES)
    assert [str(path) for path in texts if ABSOLUTE.search(path.read_text(encoding="utf-8"))] == []
    assert ABSOLUTE.search("rnncost report /tmp/model.py")


def test_the_pictures_are_small() -> None:
    sizes = [path.stat().st_size for path in Path(gallery.PICTURES).iterdir()]
    assert sum(sizes) < 2_500_000
