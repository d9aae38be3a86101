from __future__ import annotations

import csv
import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncost.counting import OpCount
from rnncost.counting.kinds import BackwardKind
from rnncost.counting.spec import CustomSpec
from rnncost.counting.tally import BackwardTally
from rnncost.reporting import CostReport, LayerCost, Uncounted
from rnncost.reporting.renderers.csv import COLUMNS, CsvRenderer
from tests.reporting.reports import SCRIPTED, packed_layer, padded_layer, report
from tests.reporting.test_text import CONDITIONS, timing


def rows(*layers: LayerCost, uncounted: tuple[Uncounted, ...] = ()) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(CsvRenderer().render(report(*layers, uncounted=uncounted)))))


COUNTS = """\
forward_macs_executed,forward_macs_padded,forward_macs_packed,forward_macs_saved,forward_macs_wasted,\
forward_mults_executed,forward_mults_padded,forward_mults_packed,forward_mults_saved,forward_mults_wasted,\
forward_adds_executed,forward_adds_padded,forward_adds_packed,forward_adds_saved,forward_adds_wasted,\
forward_activations_executed,forward_activations_padded,forward_activations_packed,forward_activations_saved,\
forward_activations_wasted"""
HEADER = f"""\
name,type,spec,input_size,hidden_size,num_layers,bias,bidirectional,proj_size,cell,source,uncounted,calls,\
backward_calls,sequences,rows_executed,rows_padded,rows_packed,{COUNTS},{COUNTS.replace("forward", "backward")},\
{COUNTS.replace("forward", "total")},saved_fraction,wasted_fraction,device,rounds,best_layout,best_ratio_to_padded,\
best_ratio_low,best_ratio_high,best_total_s,padded_total_s,packed_total_s,\
packed_packing_total_s,untimed
"""
PACKED = "420,600,420,180,0,483,690,483,207,0,525,750,525,225,0,105,150,105,45,0"
PADDED = "360,360,,0,,408,408,,0,,480,480,,0,,72,72,,0,"


def test_the_whole_file() -> None:
    layers = (packed_layer("encoder.rnn", [5, 2]), padded_layer("decoder", 2, 4))
    assert CsvRenderer().render(report(*layers, uncounted=(SCRIPTED,))) == (
        HEADER
        + f"encoder.rnn,lstm,LSTM 2x3,2,3,1,true,false,0,false,module,,1,,2,7,10,7,{PACKED}{',' * 20},{PACKED},0.3,0.0"
        + ",,,,,,,,,,,\n"
        + f"decoder,gru,GRU 2x3,2,3,1,true,false,0,false,module,,1,,2,8,8,,{PADDED}{',' * 20},{PADDED},0.0,"
        + ",,,,,,,,,,,\n"
        + f"vad.rnn,LSTM,,,,,,,,,,scripted{',' * (len(COLUMNS) - 12)}\n"
    )


def test_a_backward_stands_apart_and_in_the_total() -> None:
    layer = packed_layer("a", [5, 2])
    tally = msgspec.structs.replace(layer.calls[0].forward, passes=1)
    trained = msgspec.structs.replace(
        layer, backward_calls=(BackwardTally(kind=BackwardKind(packed=True), backward=tally),)
    )
    [row] = rows(trained)
    assert row["backward_calls"] == "1"
    assert int(row["backward_mults_executed"]) == trained.backward.executed.mults > 0
    assert int(row["total_mults_executed"]) == 483 + int(row["backward_mults_executed"])


def test_a_layer_that_was_never_called_has_counts_of_0_and_no_fractions() -> None:
    [row] = rows(LayerCost(name="idle", spec=packed_layer("a", [1]).spec))
    assert (row["calls"], row["forward_macs_executed"], row["rows_packed"]) == ("0", "0", "0")
    assert (row["saved_fraction"], row["wasted_fraction"]) == ("", "")


def test_custom_modules_have_no_sizes() -> None:
    spec = CustomSpec(title="Mine 3", row=OpCount(matmul_mults=3))
    [row] = rows(msgspec.structs.replace(packed_layer("a", [5, 2]), spec=spec))
    assert (row["type"], row["spec"], row["hidden_size"]) == ("custom", "Mine 3", "")
    assert (row["forward_macs_executed"], row["backward_macs_executed"]) == ("21", "")


def test_times_have_columns_of_their_own() -> None:
    timings = (
        timing("padded", 1, "same", 10),
        timing("packed", 0.5, "faster", 7),
        timing("packed+packing", 0.75, "faster", 7),
    )
    timed = msgspec.structs.replace(
        packed_layer("a", [5, 2]), timings=timings, conditions=CONDITIONS, best_layout="packed"
    )
    not_timed = msgspec.structs.replace(packed_layer("b", [5, 2]), untimed="no memory")
    first, second = rows(timed, not_timed)
    names = COLUMNS[-11:]
    assert [first[name] for name in names] == [
        *("x86_64", "15", "packed", "0.75", "0.65", "0.85", "0.0022500000000000003", "0.003", "0.0015"),
        *("0.0022500000000000003", ""),
    ]
    assert [second[name] for name in names] == [""] * 10 + ["no memory"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        (" =1", "' =1"),
        ("\t=1", "\\t=1"),
        ('a,"b"', 'a,"b"'),
        ("a\nb\r", "a\\nb\\r"),
        ("\u202ea\ud800", "\\u202ea\\ud800"),
        ("a=b", "a=b"),
    ],
)
def test_names_are_harmless_to_spreadsheets(name: str, shown: str) -> None:
    text = CsvRenderer().render(report(packed_layer(name, [5, 2])))
    assert len(text.encode().splitlines()) == 2
    assert rows(packed_layer(name, [5, 2]))[0]["name"] == shown
    found = Uncounted(name="a", type_name=name, reason=name)
    assert rows(uncounted=(found,))[0]["uncounted"] == shown


@given(st.lists(st.tuples(st.text(), st.integers(1, 10**20)), max_size=4))
def test_any_report_is_a_rectangle_of_exact_integers(layers: list[tuple[str, int]]) -> None:
    made = [packed_layer(name, [steps, 1]) for name, steps in layers]
    found = list(csv.reader(io.StringIO(CsvRenderer().render(report(*made)))))
    assert [len(row) for row in found] == [len(COLUMNS)] * (len(layers) + 1)
    place = COLUMNS.index("total_mults_executed")
    assert [int(row[place]) for row in found[1:]] == [69 * (steps + 1) for _, steps in layers]


def test_a_report_of_nothing_is_a_header() -> None:
    assert CsvRenderer().render(CostReport()) == HEADER
