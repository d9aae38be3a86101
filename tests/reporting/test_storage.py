from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rnncost.errors import ReportFormatError
from rnncost.reporting import CostReport
from rnncost.reporting.renderers.json import JsonRenderer
from rnncost.reporting.storage import decode_report
from rnncost.reporting.timing import RunTime
from tests.reporting.reports import SCRIPTED, packed_layer, padded_layer, report

WHOLE = report(packed_layer("a", [5, 2]), padded_layer("b", 2, 4), uncounted=(SCRIPTED,))


def test_a_saved_report_is_loaded_equal(tmp_path: Path) -> None:
    WHOLE.save(tmp_path / "report.json")
    assert CostReport.load(tmp_path / "report.json") == WHOLE


def test_times_are_saved_and_must_be_times(tmp_path: Path) -> None:
    time = RunTime(device="cpu", forward_calls=2, forward_s=0.25, backward_calls=1, backward_s=0.5)
    timed = report(msgspec.structs.replace(packed_layer("a", [5, 2]), run_time=time))
    timed.save(tmp_path / "report.json")
    text = (tmp_path / "report.json").read_text()
    assert CostReport.load(tmp_path / "report.json") == timed
    for wrong in ("NaN", "-0.5", "Infinity", '"1 s"'):
        with pytest.raises(ReportFormatError, match=r"\$\.layers\[0\]\.run_time\.forward_s"):
            decode_report(text.replace('"forward_s": 0.25', f'"forward_s": {wrong}').encode(), source="x")


def test_counts_beyond_64_bits_survive(tmp_path: Path) -> None:
    huge = report(packed_layer("a", [10**18, 10**18]))
    huge.save(tmp_path / "report.json")
    loaded = CostReport.load(tmp_path / "report.json")
    assert loaded == huge
    assert loaded.executed.macs == 2 * 10**18 * 60


def test_the_file_holds_raw_integers_for_other_readers() -> None:
    document = json.loads(JsonRenderer().render(WHOLE))
    assert document["schema_version"] == 1
    assert document["layers"][0]["counts"]["executed"]["mults"] == 483
    assert document["layers"][0]["counts"]["saved_fraction"] == 0.3
    assert document["totals"]["packed"] is None
    assert document["totals"]["wasted_fraction"] is None


def test_names_of_any_kind_are_saved(tmp_path: Path) -> None:
    odd = report(packed_layer("a\ud800\x1b<b>\u202e", [5, 2]))
    odd.save(tmp_path / "odd.json")
    assert CostReport.load(tmp_path / "odd.json") == odd
    odd.save(tmp_path / "odd.txt")


def test_counts_of_the_file_are_not_trusted() -> None:
    document = json.loads(JsonRenderer().render(WHOLE))
    document["totals"]["executed"]["mults"] = 1
    assert decode_report(json.dumps(document).encode(), source="x") == WHOLE


def broken(change: dict[str, Any]) -> bytes:
    document = json.loads(JsonRenderer().render(WHOLE))
    return json.dumps({**document, **change}).encode()


LAYER = json.loads(JsonRenderer().render(WHOLE))["layers"][0]


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"", r"line 1 column 1"),
        (b'{"schema_version": 1,', r"line 1 column 22"),
        (JsonRenderer().render(WHOLE).encode()[:-40], r"broken JSON at line \d+ column \d+"),
        (b"\xff\xfe\x00", r"not UTF-8 text at byte 0"),
        (b"[" * 100_000, r"unreadable JSON"),
        (b"[]", r"not an rnncost report: no integer `schema_version` at \$"),
        (b"{}", r"no integer `schema_version`"),
        (b'{"schema_version": "1"}', r"no integer `schema_version`"),
        (b'{"schema_version": 1}', r"no `layers` at \$"),
        (broken({"schema_version": 2}), r"schema_version 2 at \$\.schema_version; .*newer rnncost"),
        (broken({"schema_version": 0}), r"schema_version 0"),
        (broken({"schema_version": True}), r"schema_version"),
        (broken({"layers": 3}), r"\$\.layers"),
        (broken({"layers": [{**LAYER, "name": 3}]}), r"\$\.layers\[0\]\.name"),
        (broken({"layers": [{**LAYER, "spec": {**LAYER["spec"], "kind": "x"}}]}), r"\$\.layers\[0\]\.spec\.kind"),
        (broken({"layers": [{**LAYER, "spec": {**LAYER["spec"], "hidden_size": 0}}]}), r"\$\.layers\[0\]\.spec"),
        (
            broken({"layers": [{**LAYER, "calls": [{**LAYER["calls"][0], "forward": {"rows": -1}}]}]}),
            r"\$\.layers\[0\]\.calls\[0\]\.forward\.rows",
        ),
        (
            broken({"layers": [{**LAYER, "calls": [{**LAYER["calls"][0], "forward": {"rows": 1.5}}]}]}),
            r"\$\.layers\[0\]\.calls\[0\]\.forward\.rows",
        ),
        (
            broken({"layers": [{**LAYER, "calls": [{**LAYER["calls"][0], "forward": {"rows": 2, "padded_rows": 1}}]}]}),
            r"\$\.layers\[0\]: rows 2 is more than padded_rows 1",
        ),
        (
            broken({"layers": [{**LAYER, "calls": [{**LAYER["calls"][0], "forward": {"rows": 10**80}}]}]}),
            r"\$\.layers\[0\]: rows is beyond",
        ),
        (broken({"layers": [{**LAYER, "spec": {**LAYER["spec"], "num_layers": 10**9}}]}), r"\$\.layers\[0\]\.spec"),
        (broken({"uncounted": [{}]}), r"\$\.uncounted\[0\]"),
        (
            broken({"contaminations": [{"name": "a", "tolerance": float("inf")}]}),
            r"\$\.contaminations\[0\]\.tolerance is inf, which is no number",
        ),
        (
            broken({"layers": [{**LAYER, "spec": {**LAYER["spec"], "input_size": 10**400}}]}),
            r"\$\.layers\[0\]\.spec\.input_size is beyond",
        ),
        (broken({"whole_models": [{"total_macs": -(10**400)}]}), r"\$\.whole_models\[0\]\.total_macs is beyond"),
        (b'{"schema_version": 1, "layers": [], "deep": ' + b"[" * 900 + b"NaN" + b"]" * 900 + b"}", "is nan"),
        (b'{"schema_version": 1, "layers": [], "big": 1e999}', r"\$\.big is inf"),
        (broken({"layers": [{"name": float("nan")}]}), r"layers\[0\]"),
    ],
)
def test_a_bad_file_is_named_with_the_place(tmp_path: Path, data: bytes, place: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    with pytest.raises(ReportFormatError, match=place) as caught:
        CostReport.load(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_the_usual_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        CostReport.load(tmp_path / "none.json")


@pytest.mark.parametrize("name", ["report.xml", "report", "report.json.gz"])
def test_an_unknown_suffix_writes_nothing_and_lists_the_known(tmp_path: Path, name: str) -> None:
    with pytest.raises(ReportFormatError, match=r"use one of \.txt, \.json"):
        WHOLE.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_saving_replaces_a_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("x" * 100_000)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    WHOLE.save(link)
    assert link.is_symlink()
    assert CostReport.load(path) == WHOLE
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link.json", "report.json"]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    WHOLE.save(path)

    def fail(source: str, target: str) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        report().save(path)
    assert CostReport.load(path) == WHOLE
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]
