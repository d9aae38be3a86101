from __future__ import annotations

import io

import msgspec
import pytest

from rnncost.counting import RnnSpec
from rnncost.counting.kinds import BackwardKind
from rnncost.counting.tally import BackwardTally
from rnncost.reporting import CostReport, LayerCost, Uncounted
from rnncost.reporting.renderers.lengths import LengthsRenderer
from rnncost.reporting.renderers.text import TextRenderer
from rnncost.reporting.timing import LayoutTiming, RunTime, TimingConditions, advice
from tests.reporting.reports import GRU, SCRIPTED, packed_layer, padded_layer, report


def test_the_whole_table() -> None:
    text = TextRenderer().render(report(packed_layer("encoder.rnn", [5, 2]), padded_layer("decoder", 2, 4)))
    assert text == EXPECTED
    assert max(map(len, text.splitlines())) <= 80


def test_huge_counts_and_long_names_fit_80_columns() -> None:
    layer = packed_layer("encoder." * 12 + "rnn", [10**15] * 1000)
    lines = TextRenderer().render(report(layer)).splitlines()
    assert max(map(len, lines)) <= 80
    assert "".join(line[:20].strip() for line in lines).count("encoder.") >= 12


def test_a_partial_report_says_so_first() -> None:
    text = TextRenderer().render(report(packed_layer("a", [5, 2]), uncounted=(SCRIPTED,)))
    assert text.startswith("PARTIAL 30.0 % saved")
    assert "* PARTIAL: vad.rnn (LSTM) is not counted: scripted." in text
    assert "operations (partial)" in text


def test_an_empty_report() -> None:
    text = TextRenderer().render(CostReport())
    assert text.startswith("n/a saved: 0 rows executed of 0 padded; 0 MACs executed.")
    assert "No recurrent layer was found" in text


def test_layers_that_could_not_be_counted_were_found_all_the_same() -> None:
    assert "No recurrent layer was found" not in TextRenderer().render(report(uncounted=(SCRIPTED,)))


def test_what_a_reader_describes_need_not_gain_by_packing() -> None:
    padded = padded_layer("a", 2, 4, [4, 1])
    assert "* a: packing would have saved 153 mults, 37.5 % of those executed." in TextRenderer().render(report(padded))
    read = msgspec.structs.replace(padded, source="reader")
    assert "* a: padding took 153 mults, 37.5 % of those executed." in TextRenderer().render(report(read))


def test_names_cannot_steer_a_terminal_or_the_markup() -> None:
    idle = LayerCost(name="never\x1b[31m", spec=GRU)
    named = Uncounted(name="gone\x1b[31m\ud800", type_name="X\x07", reason="scripted")
    whole = report(packed_layer("[bold]a[/bold]\x1b[31m\u202e", [5, 2]), idle, uncounted=(named,))
    text = TextRenderer().render(whole)
    assert "Never called: never\\x1b[31m." in text
    assert "\x07" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]a" in text


def test_print_writes_to_the_given_file() -> None:
    stream = io.StringIO()
    whole = report(packed_layer("a", [5, 2]))
    whole.print(stream)
    assert stream.getvalue() == TextRenderer().render(whole)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_a_narrow_terminal_gets_a_readable_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    report(packed_layer("encoder", [5, 2])).print(stream)
    lines = stream.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert "".join(f"{line.rstrip()}\n" for line in lines) == NARROW


NARROW = """\
30.0 % saved: 7 rows executed of 10
padded; 420 MACs executed.

encoder
LSTM 2x3
  7 of 10 padded rows in 1 call
  420 MACs, 483 mults, 525 adds
  mults: 30.0 % saved, 0.0 % wasted

mults: █ useful, · saved; the longest
bar is 690
encoder  ██████████████████████·········

one call: encoder, packed, 2 sequences x
5 steps, 70.0 % real
length  █ real; · padding, not run
     5  █████
     2  ██···

operations                MACs     mults
────────────────────────────────────────
executed                   420       483
padded                     600       690
packed                     420       483
saved                      180       207
wasted                       0         0

* Operations, not time: fewer operations
  can still take longer on a given
  device; --profile measures it.
"""


def test_a_terminal_of_60_columns_gets_fewer_figures() -> None:
    text = TextRenderer(width=60).render(report(packed_layer("encoder.rnn", [5, 2])))
    assert text.startswith(SIXTY)


SIXTY = """\
30.0 % saved: 7 rows executed of 10 padded; 420 MACs
executed.
                                 rows  mults   saved  wasted
layer                           exec.  exec.   mults   mults
────────────────────────────────────────────────────────────
encoder.rnn                         7    483  30.0 %   0.0 %
LSTM 2x3
"""


def test_totals_of_any_size_keep_their_names() -> None:
    text = TextRenderer().render(report(packed_layer("a", [10**13] * 1000)))
    assert "executed" in text
    assert "…" not in text


def test_forward_backward_and_total_stand_apart() -> None:
    layer = packed_layer("a", [5, 2])
    kind = BackwardKind(packed=True)
    tally = msgspec.structs.replace(layer.calls[0].forward, passes=1)
    whole = report(msgspec.structs.replace(layer, backward_calls=(BackwardTally(kind=kind, backward=tally),)))
    text = TextRenderer().render(whole)
    for name in ("forward executed", "backward executed", "total executed", "total wasted"):
        assert name in text
    assert whole.costs.executed == whole.forward.executed + whole.backward.executed


TIMED = """\
rnn: time of forward + backward on x86_64, float32, 1 thread; a batch of 2
sequences, 7 real of 10 padded rows; 15 interleaved rounds
                  ops   time          ratio to                     of it
layout          saved  saved            padded  verdict   total  forward  memory
────────────────────────────────────────────────────────────────────────────────
padded *        0.0 %    0 %  1.00 (1.00-1.00)     same    3 ms     1 ms  1.5 kB
packed         30.0 %  -50 %  1.50 (1.40-1.60)   slower  4.5 ms   1.5 ms  1.5 kB
split          20.0 %   50 %  0.50 (0.40-0.60)   faster  1.5 ms   500 µs  1.5 kB
* results differ from a packed run at real steps or in final states
Packed runs 30.0 % fewer multiplications than padded and takes 1.50x of its
time: its path is native, not oneDNN. Fastest with the results of a packed run:
split, groups of 1, 1 (0.50x of padded, 95 % interval 0.40 to 0.60, predicted
0.40). Not for a model that reads an LSTM's final cell states, which padded
groups do not give.
"""


def timing(
    layout: str, ratio: float, verdict: str, rows: int, groups: tuple[int, ...] = (), predicted_s: float | None = None
) -> LayoutTiming:
    return LayoutTiming(
        layout=layout,
        exact=layout != "padded",
        groups=groups,
        rows=rows,
        predicted_s=predicted_s,
        forward_s=ratio * 1e-3,
        backward_s=ratio * 2e-3,
        total_s=ratio * 3e-3,
        ratio_to_padded=ratio,
        ratio_low=ratio - 0.1 * (ratio != 1),
        ratio_high=ratio + 0.1 * (ratio != 1),
        verdict=verdict,
        peak_bytes=1500,
    )


CONDITIONS = TimingConditions(
    device="x86_64",
    dtype="float32",
    threads=1,
    kernels={"padded": "oneDNN", "packed": "native"},
    libraries={"torch": "2.13.0"},
    batches=1,
    sequences=2,
    steps=5,
    rows=7,
    padded_rows=10,
    rounds=15,
    complete=True,
    backward=True,
)


def test_timings_say_what_to_do() -> None:
    timings = (
        timing("padded", 1, "same", 10),
        timing("packed", 1.5, "slower", 7),
        timing("split", 0.5, "faster", 8, (1, 1), 1.2e-3),
    )
    layer = msgspec.structs.replace(
        packed_layer("rnn", [5, 2]), timings=timings, conditions=CONDITIONS, best_layout="split"
    )
    assert TIMED in TextRenderer().render(report(layer))


def test_layouts_that_the_rounds_do_not_tell_apart_are_named() -> None:
    timings = (
        timing("padded", 1, "same", 10),
        timing("packed", 0.4, "faster", 7),
        timing("packed+packing", 0.65, "faster", 7),
        timing("bucketed(2)", 0.9, "unclear", 8, (1, 1)),
        timing("split", 0.5, "faster", 8, (1, 1)),
    )
    said = advice(timings, CONDITIONS, "split", cell_state=True)
    assert (
        "split, groups of 1, 1 (0.50x of padded, 95 % interval 0.40 to 0.60); not told apart from packed+packing."
        in said
    )
    assert "not told apart from packed." in advice((*timings[:2], *timings[4:]), CONDITIONS, "split", cell_state=True)
    assert "cell states" in said
    assert "cell states" not in advice(timings, CONDITIONS, "split", cell_state=False)
    assert "told apart" not in advice((timings[0], *timings[3:]), CONDITIONS, "split", cell_state=True)


def test_names_of_layouts_are_whole_beside_wide_figures() -> None:
    names = ("packed", "packed+packing", "bucketed(2)", "bucketed(16)")
    timings = (timing("padded", 1, "same", 10), *(timing(name, 12.34, "unclear", 7) for name in names))
    layer = msgspec.structs.replace(packed_layer("rnn", [5, 2]), timings=timings, conditions=CONDITIONS)
    text = TextRenderer().render(report(layer))
    table = text[text.index("layout ") : text.index("Packed runs")].splitlines()
    assert all(len(line) <= 80 for line in table)
    starts = "".join(line.split()[0] for line in table[2:])
    assert starts.startswith("".join(("padded", *names)))


def test_units_of_a_spec_are_shown() -> None:
    spec = RnnSpec(kind="lstm", input_size=12, hidden_size=64, num_layers=2, bidirectional=True)
    assert "LSTM 12x64x2 bi" in TextRenderer().render(report(packed_layer("rnn", [1], spec)))


EXPECTED = """\
18.9 % saved: 15 rows executed of 18 padded; 780 MACs executed.
                               rows    rows   MACs  mults   adds   saved  wasted
layer                  calls  exec.  padded  exec.  exec.  exec.   mults   mults
────────────────────────────────────────────────────────────────────────────────
encoder.rnn                1      7      10    420    483    525  30.0 %   0.0 %
LSTM 2x3
decoder                    1      8       8    360    408    480   0.0 %       ?
GRU 2x3

mults: █ useful, ? useful or wasted, unknown, · saved; the longest bar is 690
encoder.rnn  ███████████████████████████████████████████████····················
decoder      ????????????????????????????????????????

one call: encoder.rnn, packed, 2 sequences x 5 steps, 70.0 % real
length  █ real; · padding, not run
     5  █████
     2  ██···

operations                     MACs          mults           adds    activations
────────────────────────────────────────────────────────────────────────────────
executed                        780            891          1,005            177
padded                          960          1,098          1,230            222
packed                            ?              ?              ?              ?
saved                           180            207            225             45
wasted                            ?              ?              ?              ?

* ? = unknown: 1 padded call of decoder came without true lengths; give them
  with lengths=.
* Operations, not time: fewer operations can still take longer on a given
  device; --profile measures it.
"""


def test_lengths_explained() -> None:
    assert LengthsRenderer().render([9, 8, 6, 4, 3, 2]) == LENGTHS_EXPECTED


LENGTHS_EXPECTED = """\
6 sequences, the longest of 9 steps: of the 54 cells of the padded rectangle, 32
are real (█) and 22 are padding (·), 40.7 %.

length  steps, longest sequence first
     9  █████████
     8  ████████·
     6  ██████···
     4  ████·····
     3  ███······
     2  ██·······

batch_sizes, the sequences that still run at each step:
  6 6 5 4 3 3 2 2 1

A dot product along time, of a sequence of n steps: n mults and n - 1 adds.
  length             sequences    mults each     adds each
  9                          1             9             8
  8                          1             8             7
  6                          1             6             5
  4                          1             4             3
  3                          1             3             2
  2                          1             2             1
                                       mults          adds
  packed                     6            32            26
  padded                     6            54            48
  saved                      6            22            22
"""


def test_lengths_in_ascii_and_scaled_down() -> None:
    text = LengthsRenderer(ascii_only=True).render([300, *[7] * 99])
    assert text.isascii()
    assert "(a row stands for 5 sequences, a column for 5 steps, + is partly real)" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_a_batch_of_any_size_is_drawn_at_once() -> None:
    text = LengthsRenderer().render([10**15, 3])
    assert max(map(len, text.splitlines())) <= 80
    assert "2x3, 1x999999999999997" in text


RUN_TIMES = """\
time in this run, cpu  calls  forward   a call  calls  backward   a call   total
────────────────────────────────────────────────────────────────────────────────
encoder                    4   2.5 ms   625 µs      3       6 ms     2 ms  8.5 ms
decoder                    4     2 ms   500 µs      0          ?        ?    2 ms
total                      8   4.5 ms  563 µs      3       6 ms     2 ms  10.5 ms
"""


def run_timed(name: str, time: RunTime | None) -> LayerCost:
    return msgspec.structs.replace(packed_layer(name, [5, 2]), run_time=time)


def test_the_time_of_the_run() -> None:
    encoder = RunTime(device="cpu", forward_calls=4, forward_s=0.0025, backward_calls=3, backward_s=0.006)
    decoder = RunTime(device="cpu", forward_calls=4, forward_s=0.002, backward_untimed=1, verified_calls=4)
    whole = report(run_timed("encoder", encoder), run_timed("decoder", decoder), run_timed("idle", None))
    text = TextRenderer().render(whole)
    assert max(map(len, text.splitlines())) <= 80
    assert [line.split() for line in RUN_TIMES.splitlines()[2:]] == [
        line.split() for line in text.split("time in this run, cpu")[1].splitlines()[2:5]
    ]
    flowing = " ".join(text.split())
    assert "Time is that of the layouts that ran" in flowing
    assert "Operations, not time" not in flowing
    assert "Not timed: 1 forward call of idle." in flowing
    assert "Not timed: the backward of 1 call of decoder. Autograd does not tell" in flowing
    assert "Timed while every kernel was verified, which makes calls slower: decoder." in flowing
    forward_alone = TextRenderer().render(
        report(run_timed("a", RunTime(device="cuda", forward_calls=1, forward_s=1.0)))
    )
    assert "time in this run, cuda" in forward_alone
    assert "backward" not in forward_alone


def test_times_of_runs_add() -> None:
    one = RunTime(device="cpu", forward_calls=4, forward_s=0.25, backward_untimed=1)
    other = RunTime(device="cuda", forward_calls=1, forward_s=0.5, backward_calls=2, backward_s=1.0, verified_calls=1)
    both = RunTime(
        device="cpu+cuda",
        forward_calls=5,
        forward_s=0.75,
        backward_calls=2,
        backward_s=1.0,
        backward_untimed=1,
        verified_calls=1,
    )
    assert one + other == other + one == both
    assert (both + one).device == "cpu+cuda"
    merged = report(run_timed("a", one)).merge(report(run_timed("a", None)), report(run_timed("a", other)))
    assert merged.run_time == merged.layers[0].run_time == both
    assert report(run_timed("a", None)).run_time is None
