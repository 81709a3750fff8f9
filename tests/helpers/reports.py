"""The JSON schema of reports, and a report with hostile names."""

import json
import math

from helpers.project import ROOT
from txexport.verification import CaseReport, Report, TensorCheck

SCHEMA = json.loads((ROOT / "txexport/verification/schema.json").read_text())
HOSTILE = "<b>&'\"|`x`\x1b\x9b\u202e\ud800\\|[red]</b>"
TYPES = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "null": type(None)}


def hostile() -> Report:
    """A report with names that are special in every output format, and with NaN errors."""
    checks = [TensorCheck(HOSTILE, 3, math.inf, 1e-5), TensorCheck("y", 0, 0.0, 1e-5)]
    cases = [
        CaseReport(HOSTILE, "twin", checks, runtime="onnxruntime"),
        CaseReport(HOSTILE, "twin", checks, runtime=HOSTILE),
        CaseReport("raised", "twin", exception=f"ValueError: {HOSTILE}\nand more", runtime=HOSTILE),
        CaseReport("all cases", "twin", skipped=HOSTILE, runtime=f"other {HOSTILE}"),
        CaseReport("skipped", HOSTILE, skipped=HOSTILE),
        CaseReport("compared", f"x\n{HOSTILE}", checks),
    ]
    sizes = {HOSTILE: (9, None)}
    facts = {"numpy": "2"}, cases, {HOSTILE: HOSTILE}, {HOSTILE: "0"}
    return Report(HOSTILE, HOSTILE, HOSTILE, HOSTILE, *facts, reach=sizes, graphs={HOSTILE: "native"})


def valid(value, schema: dict, at: str = "report") -> None:
    """Assert that a value matches the schema; supports the keywords that it uses, and no others."""
    known = {"$ref", "$defs", "$schema", "title", "description", "anyOf", "type", "required", "properties"}
    known |= {"additionalProperties", "items", "enum", "const", "minimum"}
    assert schema.keys() <= known
    if "$ref" in schema:
        valid(value, SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]], at)
    if "anyOf" in schema:
        assert any(is_valid(value, option, at) for option in schema["anyOf"]), at
    kinds = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", [])
    plain = {"object": dict, "array": list} | TYPES
    assert not kinds or any(isinstance(value, plain[kind]) for kind in kinds), f"{at} is {value!r}"
    assert value in schema.get("enum", [value]), at
    assert value == schema.get("const", value), at
    if isinstance(value, int | float) and "minimum" in schema:
        assert value >= schema["minimum"], at
    if isinstance(value, dict):
        assert set(schema.get("required", ())) <= value.keys(), at
        for name, part in value.items():
            rest = schema.get("additionalProperties", {})
            assert name in schema.get("properties", {}) or rest is not False, f"{at} has {name}"
            valid(part, schema.get("properties", {}).get(name, rest or {}), f"{at}.{name}")
    for i, part in enumerate(value if isinstance(value, list) else ()):
        valid(part, schema.get("items", {}), f"{at}[{i}]")


def is_valid(value, schema: dict, at: str) -> bool:
    """Tell whether `valid` passes."""
    try:
        valid(value, schema, at)
    except AssertionError:
        return False
    return True


def check_schema(values: dict) -> None:
    """Assert that a report, or a collection of reports, matches the schema."""
    try:
        import jsonschema
    except ImportError:
        name = "collection" if "reports" in values else "report"
        valid(values, SCHEMA["$defs"][name])
    else:
        jsonschema.validate(values, SCHEMA)
