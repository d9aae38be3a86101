"""Charts as pictures: what they draw, and what they say when there is nothing to draw."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from rnncost.cli.main import main
from rnncost.errors import ReportFormatError
from rnncost.reporting import LayerCost
from rnncost.reporting.renderers.charts import CHARTS, draw
from tests.reporting.reports import packed_layer, padded_layer, report
from tests.reporting.test_html import timed_layer

TIMED = report(timed_layer("encoder.rnn"), packed_layer("decoder", [7, 7, 3]))
UNKNOWN = report(padded_layer("rnn", 3, 5))


@pytest.mark.parametrize("name", CHARTS)
def test_each_chart_is_a_picture(name: str, tmp_path: Path) -> None:
    TIMED.save(tmp_path / "chart.svg", chart=name)
    TIMED.save(tmp_path / "chart.png", chart=name)
    assert (tmp_path / "chart.svg").read_text().startswith("<svg")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_bars_hold_the_counts() -> None:
    values = draw("operations", report(packed_layer("rnn", [5, 2]), padded_layer("gru", 2, 4, [4, 1]))).data.values
    found = {(value["layer"], value["part"]): value["mults"] for value in values}
    # LSTM(2, 3): 69 mults a row, 7 of 10 rows. GRU(2, 3): 51 a row, 8 rows run for 5 real ones.
    assert found == {
        ("rnn", "useful"): 7 * 69,
        ("rnn", "saved"): 3 * 69,
        ("gru", "useful"): 5 * 51,
        ("gru", "wasted on padding"): 3 * 51,
    }
    [unknown] = draw("operations", UNKNOWN).data.values
    assert (unknown["part"], unknown["mults"]) == ("useful or wasted, unknown", 15 * 51)


def test_the_histogram_counts_sequences() -> None:
    values = draw("lengths", report(packed_layer("rnn", [90, 90, 7, 3, 1]))).data.values
    # 90 steps in 40 bins: three steps a bin.
    assert [(value["steps"], value["sequences"]) for value in values] == [("1 to 3", 2), ("7 to 9", 1), ("88 to 90", 2)]


def test_the_worst_batch_is_the_emptiest() -> None:
    drawn = draw("occupancy", report(packed_layer("full", [5, 5, 5, 4]), packed_layer("empty", [9, 1])))
    titles = [chart["title"][0] for chart in drawn.to_dict()["vconcat"]]
    assert titles[1] == "the worst batch: 2 sequences, 9 steps, 55.6 % real"


@pytest.mark.parametrize(
    ("layers", "title"),
    [
        ([packed_layer("a", [5, 2])], "the batch seen: 2 sequences, 5 steps, 70.0 % real"),
        (
            [packed_layer("a", [5, 2]), packed_layer("b", [5, 2])],
            "one of batches filled alike: 2 sequences, 5 steps, 70.0 % real",
        ),
        (
            [packed_layer("a", [9, 1]), packed_layer("b", [5])],
            "a typical batch, none is worse: 2 sequences, 9 steps, 55.6 % real",
        ),
    ],
)
def test_one_batch_that_stands_for_all_says_how(layers: list[LayerCost], title: str) -> None:
    assert draw("occupancy", report(*layers)).to_dict()["title"][0] == title


@pytest.mark.parametrize(("sequences", "height"), [(1, 60), (3, 60), (8, 112), (30, 270), (48, 240), (57, 9 * 28.5)])
def test_rows_of_a_batch_end_on_whole_pixels(sequences: int, height: float) -> None:
    # 9 pixels for each of 30 rows; 57 sequences are 28 rows of two and a last one of one.
    assert draw("occupancy", report(packed_layer("a", [5] * sequences))).to_dict()["height"] == height


@pytest.mark.parametrize(("name", "ticks"), [("lengths", (7, 2)), ("occupancy", (7, 3))])
def test_sequences_and_steps_are_counted_in_whole_numbers(name: str, ticks: tuple[int, int]) -> None:
    drawn = draw(name, report(packed_layer("rnn", [7, 7, 2]))).to_dict()["encoding"]
    assert (drawn["x"]["axis"]["tickCount"], drawn["y"]["axis"]["tickCount"]) == ticks


def test_axes_have_their_numbers(tmp_path: Path) -> None:
    report(packed_layer("rnn", [7, 7, 2])).save(tmp_path / "chart.svg", chart="occupancy")
    labels = re.findall(r"<text[^>]*>([^<]*)</text>", (tmp_path / "chart.svg").read_text())
    assert labels[:8] == list("01234567")
    assert labels[8:13] == ["step", *"3210"]


def test_layouts_are_drawn_with_their_intervals() -> None:
    _, intervals, points = draw("layouts", TIMED).vconcat[0].layer
    found = {value["layout"]: (value["low"], value["median"], value["high"]) for value in intervals.data.values}
    assert found == {
        "padded (results differ)": (0.9, 1.0, 1.1),
        "packed": (pytest.approx(1.35), 1.5, pytest.approx(1.65)),
        "split ★": (0.45, 0.5, 0.55),
    }
    assert points.data.values == intervals.data.values


def test_savings_may_be_negative() -> None:
    values = draw("savings", TIMED).layer[1].data.values
    found = {value["layout"]: (value["operations"], value["time"]) for value in values}
    # 7 and 8 of 10 rows; 1.5 and 0.5 times the time. Padded saves nothing and its results differ.
    assert found == {"packed": (pytest.approx(0.3), -0.5), "split": (pytest.approx(0.2), 0.5)}


@pytest.mark.parametrize("name", ["occupancy", "lengths", "savings", "layouts"])
def test_what_cannot_be_filled_is_said(name: str, tmp_path: Path) -> None:
    with pytest.raises(ReportFormatError, match=f"nothing to draw in the chart '{name}'"):
        UNKNOWN.save(tmp_path / "chart.svg", chart=name)
    assert not list(tmp_path.iterdir())


def test_on_the_command_line(tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    TIMED.save(saved)
    picture = tmp_path / "occupancy.png"
    done = CliRunner().invoke(main, ["show", str(saved), "-o", str(picture), "--chart", "occupancy"])
    assert (done.exit_code, picture.read_bytes()[:4]) == (0, b"\x89PNG")
    # Whichever of the two options stands first.
    done = CliRunner().invoke(main, ["show", str(saved), "--chart", "lengths", "-o", str(tmp_path / "lengths.svg")])
    assert done.exit_code == 0
    unnamed = CliRunner().invoke(main, ["show", str(saved), "-o", str(picture)])
    assert (unnamed.exit_code, "a picture shows one chart; name one of operations" in unnamed.stderr) == (2, True)
    other = CliRunner().invoke(main, ["show", str(saved), "-o", str(picture), "--chart", "pie"])
    assert (other.exit_code, "there is no chart 'pie'" in other.stderr) == (2, True)
    UNKNOWN.save(saved)
    nothing = CliRunner().invoke(main, ["show", str(saved), "-o", str(picture), "--chart", "lengths"])
    # The report is printed all the same.
    assert (nothing.exit_code, "nothing to draw" in nothing.stderr, "rows executed" in nothing.stdout) == (
        2,
        True,
        True,
    )
