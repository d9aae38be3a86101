"""Pictures of batches: which cells are real, and how long the sequences are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import altair as alt

from rnncost.reporting.occupancy import occupancy as occupancy_of
from rnncost.reporting.renderers.charts.theme import REAL, SAVED, WASTED, WIDTH
from rnncost.reporting.report import CostReport
from rnncost.reporting.seen import SeenBatch, known_batches, typical_batch, worst_batch
from rnncost.units import format_fraction, printable

_ROWS, _COLUMNS, _BINS = 48, 60, 40
_LOWEST, _HIGHEST, _THICKEST = 60, 280, 14


def occupancy(report: CostReport) -> Any:
    """A typical and the worst batch, one above the other."""
    drawn = pictures(report)
    return alt.vconcat(*drawn) if len(drawn) > 1 else drawn[0] if drawn else None


def pictures(report: CostReport) -> list[Any]:
    """The same pictures one by one, for a page that puts them side by side."""
    typical, worst = typical_batch(report), worst_batch(report)
    if typical is None or worst is None:
        return []
    if typical == worst:
        return [_picture(typical, _alone(report))]
    return [_picture(typical, "a typical batch"), _picture(worst, "the worst batch")]


def _alone(report: CostReport) -> str:
    """What a batch is that is the typical one and the worst one."""
    shares = [batch.real_share for batch in known_batches(report)]
    if len(shares) == 1:
        return "the batch seen"
    return "one of batches filled alike" if len(set(shares)) == 1 else "a typical batch, none is worse"


def lengths(report: CostReport) -> Any:
    """The histogram of the lengths in the batches of the sample."""
    batches = known_batches(report)
    if not batches:
        return None
    # One layer's batches: another would show the same sequences again.
    name = batches[0].layer.name
    counts: Counter[int] = Counter()
    for batch in batches:
        if batch.layer.name == name:
            counts.update(dict(batch.shape.length_counts or ()))
    longest = max(counts)
    width = -(-longest // _BINS)
    bins: Counter[int] = Counter()
    for length, number in counts.items():
        bins[(length - 1) // width if length else 0] += number
    values = [
        {
            "from": bin_number * width + 0.5,
            "to": (bin_number + 1) * width + 0.5,
            "none": 0,
            "sequences": number,
            "steps": _range(bin_number * width + 1, min(longest, (bin_number + 1) * width)),
        }
        for bin_number, number in sorted(bins.items())
    ]
    return (
        alt.Chart(alt.InlineData(values))
        .mark_bar(color=REAL)
        .encode(
            x=alt.X("from:Q", title="steps of a sequence", axis=_axis(longest, most=12)),
            x2="to:Q",
            y=alt.Y("sequences:Q", title="sequences", axis=_axis(max(bins.values()), grid=True)),
            y2="none:Q",
            tooltip=[alt.Tooltip("steps:N", title="steps"), alt.Tooltip("sequences:Q", title="sequences", format=",")],
        )
        .properties(width=WIDTH, height=180, description="Histogram of the lengths of sequences.")
    )


def _picture(batch: SeenBatch, title: str) -> Any:
    drawn = occupancy_of(batch.shape, max_rows=_ROWS, max_columns=_COLUMNS)
    width, sequences = batch.shape.padded_steps, batch.shape.sequences
    values = []
    for row, filled in enumerate(drawn.filled):
        top = row * drawn.sequences_per_row
        bottom = min(sequences, top + drawn.sequences_per_row)
        for start, end, share in _runs(filled):
            first, last = start * drawn.steps_per_column, min(width, end * drawn.steps_per_column)
            values.append(
                {
                    "first": first,
                    "last": last,
                    "top": top,
                    "bottom": bottom,
                    "real": share,
                    "steps": _range(first + 1, last),
                    "sequences": _range(top + 1, bottom),
                }
            )
    run = "packed, filler left out" if batch.shape.packed else "padded, filler computed"
    heading = [
        f"{title}: {sequences:,} sequences, {width:,} steps, {format_fraction(batch.real_share)} real",
        f"{printable(batch.layer.name)}, {run}",
    ]
    return (
        alt.Chart(alt.InlineData(values), title=heading)
        .mark_rect()
        .encode(
            x=alt.X(
                "first:Q", title="step", scale=alt.Scale(domain=[0, width], nice=False), axis=_axis(width, most=12)
            ),
            x2="last:Q",
            y=alt.Y(
                "top:Q",
                title="sequence",
                scale=alt.Scale(domain=[sequences, 0], nice=False),
                axis=_axis(sequences),
            ),
            y2="bottom:Q",
            color=alt.Color(
                "real:Q",
                scale=alt.Scale(domain=[0, 1], range=[_filler_color(batch), REAL]),
                legend=alt.Legend(title="real part of the cells", format="%", values=[0, 0.5, 1], gradientLength=120),
            ),
            tooltip=[
                alt.Tooltip("sequences:N", title="sequences"),
                alt.Tooltip("steps:N", title="steps"),
                alt.Tooltip("real:Q", title="real", format=".0%"),
            ],
        )
        .properties(
            width=WIDTH,
            height=_row_height(len(drawn.filled)) * sequences / drawn.sequences_per_row,
            description=f"Cells of {title} that are real and that are filler.",
        )
    )


def _axis(largest: int, *, most: int = 5, grid: bool = False) -> alt.Axis:
    """An axis of whole numbers: no more ticks than there are."""
    return alt.Axis(format="~s", tickCount=max(1, min(most, largest)), grid=grid)


def _row_height(rows: int) -> int:
    # In whole pixels: rows that end inside one would be parted by lines.
    return max(-(-_LOWEST // rows), min(_THICKEST, _HIGHEST // rows))


def _filler_color(batch: SeenBatch) -> str:
    # A packed run leaves the filler out, a padded one computes it.
    return SAVED if batch.shape.packed else WASTED


def _runs(filled: Any) -> Any:
    """Neighbouring blocks of the same share as one, so that a picture stays small."""
    start = 0
    for end in range(1, len(filled) + 1):
        if end == len(filled) or filled[end] != filled[start]:
            yield start, end, float(filled[start])
            start = end


def _range(first: int, last: int) -> str:
    return f"{first:,}" if first >= last else f"{first:,} to {last:,}"
