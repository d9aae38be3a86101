"""The JSON Schema of a saved report, made from the records themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from rnncost.counting.opcount import OpCount
from rnncost.reporting.report import SCHEMA_VERSION, CostReport

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_LAYOUTS = ("executed", "padded", "packed", "saved", "wasted")
_UNKNOWN_WITHOUT_LENGTHS = ("packed", "wasted")


def report_schema() -> dict[str, Any]:
    """The schema of the files that :meth:`CostReport.save` writes as JSON.

    It holds all of a file: the recorded sums, and the counts that are derived from them. Fields
    that a newer rnncost adds are allowed.
    """
    schema = msgspec.json.schema(CostReport)
    definitions = schema.pop("$defs")
    report, layer = definitions["CostReport"], definitions["LayerCost"]
    report["properties"] |= {
        "schema_version": {"const": SCHEMA_VERSION},
        "partial": {"type": "boolean"},
        "totals": _reference("Counts"),
    }
    report["required"] = ["schema_version", "partial", "totals", "layers"]
    layer["properties"]["counts"] = _reference("Counts")
    layer["required"] = [*layer["required"], "counts"]
    definitions |= {"Counts": _counts(), "Layouts": _layouts(), "Operations": _operations()}
    return {"$schema": _DIALECT, "title": "A saved rnncost report", **schema, "$defs": definitions}


def _counts() -> dict[str, Any]:
    both = {name: _reference("Layouts") for name in ("forward", "backward")}
    properties = {**_layouts()["properties"], **both}
    return _object(properties, "Operations of forward and backward passes together, and then apart.")


def _layouts() -> dict[str, Any]:
    properties: dict[str, Any] = {
        name: _or_null(_reference("Operations")) if name in _UNKNOWN_WITHOUT_LENGTHS else _reference("Operations")
        for name in _LAYOUTS
    }
    properties["saved_fraction"] = _or_null({"type": "number"})
    properties["wasted_fraction"] = _or_null({"type": "number"})
    return _object(properties, "As executed, padded and packed; null where lengths are unknown or nothing ran.")


def _operations() -> dict[str, Any]:
    names = ("mults", "adds", "macs", "flops", *OpCount.__struct_fields__)
    return _object({name: {"type": "integer"} for name in names}, "Operations; negative only in differences.")


def _object(properties: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "object", "description": description, "properties": properties, "required": list(properties)}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}
