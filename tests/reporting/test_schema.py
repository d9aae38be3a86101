"""The schema holds what is saved, and a report of version 1 loads for ever."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rnncost.counting import OpCount
from rnncost.reporting import CostReport
from rnncost.reporting.renderers.json import JsonRenderer
from rnncost.reporting.schema import report_schema
from tests.reporting.reports import SCRIPTED, packed_layer, padded_layer, report

ROOT = Path(__file__).parents[2]
VERSION_1 = ROOT / "tests" / "data" / "report-v1.json"
SAVED = sorted(path for path in (ROOT / "reports").rglob("*.json") if b'"layers"' in path.read_bytes())
VALIDATOR = jsonschema.Draft202012Validator(report_schema())


def errors(document: Any) -> list[str]:
    return [error.json_path for error in VALIDATOR.iter_errors(document)]


def test_the_schema_is_one_and_says_of_what() -> None:
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "A saved rnncost report"
    assert "$id" not in schema


@pytest.mark.parametrize("path", [VERSION_1, *SAVED], ids=lambda path: path.stem)
def test_saved_reports_fit_the_schema_and_load(path: Path) -> None:
    assert errors(json.loads(path.read_bytes())) == []
    whole = CostReport.load(path)
    assert whole.layers or whole.partial


def test_there_are_saved_reports_to_test() -> None:
    assert len(SAVED) >= 7


@pytest.mark.parametrize(
    "whole",
    [
        CostReport(),
        report(packed_layer("a", [5, 2]), padded_layer("b", 2, 4), uncounted=(SCRIPTED,)),
        CostReport.load(VERSION_1),
    ],
)
def test_rendered_reports_fit_the_schema_and_their_counts_are_all_named(whole: CostReport) -> None:
    document = json.loads(JsonRenderer().render(whole))
    assert errors(document) == []
    definitions = report_schema()["$defs"]
    for counts in [document["totals"], *(layer["counts"] for layer in document["layers"])]:
        assert list(counts) == list(definitions["Counts"]["properties"])
        assert list(counts["forward"]) == list(definitions["Layouts"]["properties"])
        assert list(counts["executed"]) == list(definitions["Operations"]["properties"])
    assert set(document) == set(definitions["CostReport"]["properties"])


WHOLE = json.loads(VERSION_1.read_bytes())


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((), []),
        (("layers",), None),
        (("layers",), {}),
        (("schema_version",), 2),
        (("schema_version",), "1"),
        (("partial",), "no"),
        (("totals",), None),
        (("totals", "executed"), None),
        (("totals", "executed", "mults"), 1.5),
        (("totals", "executed", "activations"), "many"),
        (("totals", "packed"), 0),
        (("totals", "saved_fraction"), "30 %"),
        (("totals", "backward", "wasted"), 0),
        (("layers", 0, "name"), 3),
        (("layers", 0, "spec", "kind"), "transformer"),
        (("layers", 0, "spec", "hidden_size"), "3"),
        (("layers", 0, "spec", "type"), "other"),
        (("layers", 0, "source"), "guess"),
        (("layers", 0, "calls", 0, "forward", "rows"), -1),
        (("layers", 0, "calls", 0, "kind", "packed"), "yes"),
        (("layers", 0, "counts", "executed", "macs"), None),
        (("layers", 0, "samples", 0, "shape", "length_counts"), [[5]]),
        (("layers", 1, "timings", 0, "total_s"), "3 ms"),
        (("layers", 1, "conditions", "rounds"), None),
        (("uncounted", 0), "vad.rnn"),
        (("verification", "calls"), "3"),
        (("contaminations", 0, "differences", 0, "largest"), None),
        (("whole_models", 0, "total_macs"), 0.5),
        (("versions", "torch"), "2.13.0"),
    ],
)
def test_a_wrong_value_does_not_fit(place: tuple[Any, ...], value: Any) -> None:
    document = copy.deepcopy(WHOLE)
    if not place:
        document = value
    else:
        inner = document
        for key in place[:-1]:
            inner = inner[key]
        assert place[-1] in inner or isinstance(inner, list)
        inner[place[-1]] = value
    assert errors(document) != []


@pytest.mark.parametrize(
    "place",
    [
        ("schema_version",),
        ("partial",),
        ("totals",),
        ("layers",),
        ("totals", "wasted"),
        ("totals", "executed", "flops"),
        ("layers", 0, "name"),
        ("layers", 0, "spec"),
        ("layers", 0, "counts"),
        ("layers", 0, "calls", 0, "kind"),
    ],
)
def test_a_missing_part_does_not_fit(place: tuple[Any, ...]) -> None:
    document = copy.deepcopy(WHOLE)
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    del inner[place[-1]]
    assert errors(document) != []


def test_fields_of_a_newer_release_are_allowed() -> None:
    assert errors({**WHOLE, "mood": "good"}) == []


def test_a_report_of_version_1_keeps_its_figures() -> None:
    whole = CostReport.load(VERSION_1)
    assert [(layer.name, str(layer.spec), layer.source) for layer in whole.layers] == [
        ("encoder.rnn", "LSTM 2x3", "module"),
        ("decoder", "GRU 2x3", "module"),
        ("stack", "GRU 2x3x2 bi no bias", "module"),
        ("own", "MinimalGRU 2x3", "reader"),
        ("idle", "LSTM 4x5 proj 2", "subclass"),
        ("cell", "RNN-relu cell 2x3", "estimate"),
    ]
    encoder, decoder, stack, own, idle, cell = whole.layers
    # Two calls of 7 rows, one of them recomputed.
    assert (encoder.forward.executed.mults, encoder.forward.executed.adds) == (14 * 69, 14 * 75)
    assert encoder.recomputed_calls == 1
    assert encoder.backward.executed == OpCount(
        matmul_mults=768, matmul_adds=535, gate_mults=330, gate_adds=105, accumulate_adds=588
    )
    # 8 rows of which 5 are real.
    assert (decoder.executed.mults, decoder.executed.adds) == (8 * 51, 8 * 60)
    assert decoder.wasted == OpCount(
        matmul_mults=3 * 45, matmul_adds=3 * 27, bias_adds=3 * 18, gate_mults=3 * 6, gate_adds=3 * 15, activations=3 * 9
    )
    # 6 rows: 2 directions of 9 dot products with 2, then 6 inputs, and 3 states twice; 2 mults for each of 6 outputs.
    assert (stack.executed.macs, stack.executed.mults, stack.wasted) == (6 * 252, 6 * (252 + 24 + 12), None)
    assert (own.executed.mults, own.executed.adds) == (7 * 39, 7 * 36)
    assert (idle.executed, idle.untimed) == (OpCount(), "it was never called")
    assert (cell.executed.mults, cell.executed.adds, cell.executed.activations) == (30, 36, 6)
    assert (whole.executed.mults, whole.executed.adds, whole.executed.activations) == (4_503, 4_486, 546)
    assert (whole.packed, whole.padded.mults, whole.partial) == (None, 5_538, True)


def test_a_report_of_version_1_keeps_what_is_not_a_count() -> None:
    whole = CostReport.load(VERSION_1)
    decoder = whole.layers[1]
    assert [(each.layout, each.total_s, each.verdict) for each in decoder.timings] == [
        ("padded", 0.003, "same"),
        ("packed", 0.0045, "slower"),
        ("split", 0.0015, "faster"),
    ]
    assert decoder.timings[2].groups == (1, 1)
    assert decoder.timings[2].predicted_s == 1.25e-3
    assert decoder.conditions is not None
    assert (decoder.conditions.rounds, decoder.conditions.libraries["oneDNN"]) == (15, "3.8")
    assert decoder.best_layout == "split"
    assert whole.layers[0].samples[0].shape.length_counts == ((5, 1), (2, 1))
    assert whole.layers[2].samples[0].shape.length_counts is None
    assert whole.layers[0].backward_calls[0].kind.frozen == ("bias_hh_l0",)
    assert [str(each) for each in whole.uncounted] == ["vad.rnn (LSTM) is not counted: scripted"]
    assert whole.verification is not None
    assert (whole.verification.kernel_macs, whole.verification.agrees) == (1620, False)
    checked, unchecked = whole.contaminations
    assert (checked.outputs_exact, checked.states_exact, checked.assumed) == (True, False, True)
    assert unchecked.unchecked == "its module has no weights to try"
    assert whole.whole_models[0].position_wise[0].wasted_macs == 90
    assert whole.versions == {"rnncost": ("0.1.0",), "torch": ("2.13.0", "2.6.0")}
