from __future__ import annotations

import io
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from rnncost.counting import BatchShape, OpCount
from rnncost.counting.sample import BatchSample
from rnncost.reporting import CostReport, LayerCost
from rnncost.reporting.costs import Costs
from rnncost.reporting.occupancy import occupancy
from rnncost.reporting.renderers.bars import BarParts, columns
from rnncost.reporting.renderers.glyphs import ASCII, BLOCKS, can_show
from rnncost.reporting.renderers.terminal import pictures
from rnncost.reporting.renderers.text import TextRenderer
from tests.reporting.reports import packed_layer, padded_layer, report
from tests.reporting.test_text import CONDITIONS, Terminal, timing


def sampled(layer: LayerCost, lengths: list[int]) -> LayerCost:
    shape = BatchShape.rectangle(sequences=len(lengths), steps=max(lengths), lengths=lengths)
    return msgspec.structs.replace(layer, samples=(BatchSample(priority=1, shape=shape),))


def beyond_padded(name: str) -> LayerCost:
    """7 rows run where the padded batch would have had 6; no way of running is known that does this."""
    layer = packed_layer(name, [5, 2])
    tally = msgspec.structs.replace(layer.calls[0].forward, padded_rows=6, padded_steps=3)
    return msgspec.structs.replace(layer, calls=(msgspec.structs.replace(layer.calls[0], forward=tally),), samples=())


def drawn(*layers: LayerCost, width: int = 60, ascii_only: bool = False) -> str:
    texts = pictures(report(*layers), width=width, glyphs=ASCII if ascii_only else BLOCKS)
    return "".join(f"{text.plain.rstrip()}\n" for text in texts)


# LSTM(2, 3) has 69 mults a row, GRU(2, 3) 51: 690 padded of which 483 ran; 408 of unknown use;
# 408 of which 5 rows, 255 mults, are real; 483 where 414 were padded.
LAYERS = (
    packed_layer("encoder", [5, 2]),
    padded_layer("unknown", 2, 4),
    sampled(padded_layer("model.decoder.rnn.with.long.name", 2, 4, [4, 1]), [4, 1]),
    beyond_padded("odd"),
    LayerCost(name="never called", spec=packed_layer("x", [1]).spec),
)


def test_both_pictures() -> None:
    assert (
        drawn(*LAYERS)
        == """\
mults: █ useful, ░ wasted on padding, ? useful or wasted,
unknown, ▓ more than padded, · saved; the longest bar is 690
encoder               ███████████████████████████···········
unknown               ??????????????????????
..rnn.with.long.name  ██████████████░░░░░░░░
odd                   ███████████████████████▓▓▓▓

emptiest of 2 sampled calls:
model.decoder.rnn.with.long.name, padded, 2 sequences x 4
steps, 62.5 % real
length  █ real; · padding, run as well
     4  ████
     1  █···

"""
    )


def test_both_pictures_in_ascii_on_40_columns() -> None:
    text = drawn(*LAYERS, width=40, ascii_only=True)
    assert (
        text
        == """\
mults: # useful, - wasted on padding,
? useful or wasted, unknown, ! more than
padded, . saved; the longest bar is 690
encoder        ##################.......
unknown        ???????????????
..h.long.name  #########------
odd            ###############!!!

emptiest of 2 sampled calls:
model.decoder.rnn.with.long.name,
padded, 2 sequences x 4 steps, 62.5 %
real
length  # real; . padding, run as well
     4  ####
     1  #...

"""
    )


def test_a_large_batch_is_drawn_small() -> None:
    assert (
        drawn(packed_layer("rnn", [300, *[70] * 98, 7]), width=80).split("\n\n")[1]
        == """\
one call: rnn, packed, 100 sequences x 300 steps, 23.9 % real
length  █ real; ▒ partly real; · padding, not run; a row is 13 sequences; a
        column 5 steps
   300  ██████████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
    70  ██████████████··············································
    70  ██████████████··············································
    70  ██████████████··············································
    70  ██████████████··············································
    70  ██████████████··············································
    70  ██████████████··············································
    70  █▒▒▒▒▒▒▒▒▒▒▒▒▒··············································"""
    )


def test_a_batch_of_any_number_of_sequences_is_drawn_at_once() -> None:
    shape = BatchShape(
        packed=True, sequences=10**15, steps=2, padded_steps=2, length_counts=((2, 10**14), (1, 9 * 10**14))
    )
    picture = occupancy(shape, max_rows=4, max_columns=9)
    assert picture.lengths == (2, 1, 1, 1)
    # Of the first quarter, 2.5e14 sequences, 1e14 have a second step.
    full, none = Fraction(1), Fraction(0)
    assert picture.filled == ((full, Fraction(2, 5)), (full, none), (full, none), (full, none))


def test_nothing_is_drawn_where_there_is_nothing_to_see() -> None:
    estimated = msgspec.structs.replace(packed_layer("a", [5, 2]), source="estimate")
    assert "mults:" not in drawn(estimated)
    assert "one call: a, packed, 2 sequences x 5 steps" in drawn(estimated)
    assert "call" not in drawn(packed_layer("full", [5, 5]))
    assert drawn(LayerCost(name="a", spec=LAYERS[0].spec)) == ""
    assert pictures(CostReport(), width=80, glyphs=BLOCKS) == []


def test_of_many_layers_the_largest_are_drawn() -> None:
    lines = drawn(*(packed_layer(f"rnn{n}", [n, n]) for n in range(1, 31))).splitlines()
    assert [line.split()[0] for line in lines[1:21]] == [f"rnn{n}" for n in range(11, 31)]
    assert lines[21] == "(and 10 smaller layers)"


def test_names_cannot_steer_a_terminal_and_wide_ones_stay_aligned() -> None:
    lines = drawn(packed_layer("a\x1b[31m\u202e", [5, 2]), packed_layer("層" * 40, [5, 2])).splitlines()
    assert "\x1b" not in lines[1] + lines[2]
    assert "\u202e" not in lines[1] + lines[2]
    assert [cell_len(line[: line.index("█")]) for line in lines[1:3]] == [22, 22]


counts = st.integers(0, 10**30) | st.integers(0, 100)


@given(executed=counts, padded=counts, packed=st.none() | counts)
def test_the_parts_of_a_bar_add_up(executed: int, padded: int, packed: int | None) -> None:
    def mults(number: int) -> OpCount:
        return OpCount(matmul_mults=number)

    costs = Costs(executed=mults(executed), padded=mults(padded), packed=None if packed is None else mults(packed))
    parts = BarParts.of(costs)
    assert min(parts.mults) >= 0
    assert parts.total == max(executed, padded)
    assert parts.useful + parts.wasted + parts.unknown + parts.extra == executed
    assert (parts.unknown == 0) if packed is not None else (parts.useful == parts.wasted == 0)
    if packed is not None and packed <= executed <= padded:
        assert (parts.useful, parts.wasted, parts.saved) == (packed, executed - packed, padded - executed)


@given(st.lists(counts, min_size=5, max_size=5), counts, st.integers(8, 300))
def test_the_columns_of_a_bar_round_nothing_away(parts: list[int], longer: int, width: int) -> None:
    longest = max(sum(parts) + longer, 1)
    shown = columns(parts, longest=longest, width=width)
    there = sum(1 for part in parts if part)
    assert sum(shown) <= width
    assert abs(sum(shown) - Fraction(width * sum(parts), longest)) <= max(1, there)
    for part, number in zip(parts, shown, strict=True):
        assert (number > 0) == (part > 0)
        assert number <= Fraction(width * part, longest) + there


names = st.text(st.characters(exclude_categories=["Mn", "Me", "Mc", "Cf"]), max_size=60)
batches = st.lists(st.integers(1, 10**6), min_size=1, max_size=6)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(names, batches, st.booleans()), max_size=4), st.integers(32, 200), st.booleans())
def test_no_line_is_wider_than_the_terminal(
    layers: list[tuple[str, list[int], bool]], width: int, ascii_only: bool
) -> None:
    made = [
        packed_layer(name, lengths) if packed else padded_layer(name, len(lengths), max(lengths))
        for name, lengths, packed in layers
    ]
    text = TextRenderer(width=width, ascii_only=ascii_only).render(report(*made))
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text or any("…" in name for name, _, _ in layers)


@pytest.mark.parametrize("width", [32, 40, 55, 56, 79, 80, 200])
def test_timings_fit_any_terminal(width: int) -> None:
    timings = (timing("packed+packing", 1.5, "slower", 7), timing("bucketed(16)", 0.5, "unclear", 8, (1, 1)))
    layer = msgspec.structs.replace(
        packed_layer("rnn", [5, 2]), timings=timings, conditions=CONDITIONS, best_layout="bucketed(16)"
    )
    text = TextRenderer(width=width).render(report(layer))
    assert max(map(len, text.splitlines())) <= width
    assert "0.50 0.40-0.60" in text
    assert ("unclear" in text) == (width >= 40)
    assert "…" not in text


class Ascii(Terminal):
    encoding = "ascii"


@pytest.fixture
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.usefixtures("wide_terminal")
def test_a_terminal_gets_colours_and_its_width() -> None:
    stream = Terminal()
    report(packed_layer("encoder", [5, 2])).print(stream)
    # 111 columns after the name: 70 % and 30 % of them.
    assert f"encoder  \x1b[32m{'█' * 78}\x1b[0m\x1b[36m{'·' * 33}\x1b[0m\n" in stream.getvalue()


@pytest.mark.usefixtures("wide_terminal")
def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    report(packed_layer("encoder", [5, 2])).print(stream)
    assert f"encoder  {'█' * 78}{'·' * 33}\n" in stream.getvalue()
    assert "\x1b[3" not in stream.getvalue()


@pytest.mark.usefixtures("wide_terminal")
def test_a_terminal_without_block_characters_gets_ascii() -> None:
    stream = Ascii()
    report(packed_layer("encoder", [5, 2])).print(stream)
    assert f"encoder  {'#' * 78}{'.' * 33}\n" in stream.getvalue()
    assert stream.getvalue().isascii()


@pytest.mark.usefixtures("wide_terminal")
def test_a_pipe_gets_plain_text_of_80_columns() -> None:
    stream = io.StringIO()
    report(packed_layer("encoder", [5, 2])).print(stream)
    assert f"encoder  {'█' * 50}{'·' * 21}\n" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", True), ("cp437", False), ("latin-1", False), ("?", False)])
def test_what_an_encoding_can_show(encoding: str, shown: bool) -> None:
    assert can_show("█░▒·…", encoding) == shown
    assert can_show("█░▓▒·", "cp437")
