"""What is told of a release or another export beside a bundle: every difference in words, also in a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.report import difference, regression

pytestmark = pytest.mark.unit

HOSTILE = "<b>\x1b]0;x"


def model(**changes: Any) -> dict[str, Any]:
    """Nothing that differs, of one model."""
    fields: dict[str, Any] = {
        "model": "main", "same_structure": True, "interface": [], "versions": [], "sizes": [], "counts": {},
        "selections_new": [], "selections_gone": 0, "selections_changed": 0, "not_compared": [],
    }  # fmt: skip
    for what in ("operators", "domains", "functions", "initializers"):
        fields |= {f"{what}_added": [], f"{what}_removed": []}
    return fields | changes


def selection(**changes: Any) -> dict[str, Any]:
    fields = {
        "op_type": "Where", "count": 1, "driven": "input", "input": "features", "path": ["top", "hit"],
        "places": [["graph/node[3]", "hit"]],
    }  # fmt: skip
    return fields | changes


def found(**changes: Any) -> dict[str, Any]:
    release = {"number": 7, "channel": "production", "version": "1.3.0", "bundle_digest": "ab" * 32}
    return {"status": "found", "reason": "", "release": release, "models": [], "bundle": {}} | changes


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "Compared with release production 7, version 1.3.0 (abababababababab)."),
        (
            {"status": "unknown", "reason": "its facts are gone"},
            "Not known what differs from release production 7: its facts are gone",
        ),
        ({"status": "none", "reason": "there is no release"}, "Not compared: there is no release."),
        (
            {"release": {"bundle_digest": "cd" * 32}},
            "Compared with the bundle that was given (cdcdcdcdcdcdcdcd).",
        ),
    ],
)
def test_the_heading_says_what_it_was_compared_with_or_why_with_nothing(
    changes: dict[str, Any], line: str
) -> None:
    assert difference.heading(found(**changes)) == line
    assert difference.release_section(None) == ""


def test_what_selections_do_otherwise_is_a_row_each_and_what_is_not_listed_is_counted() -> None:
    many = [[f"graph/node[{index}]", "hit"] for index in range(30)]
    one = model(
        same_structure=False,
        selections_new=[
            selection(count=30, places=many),
            selection(op_type="If", driven="none", input="", places=[["graph/node[1]", "c"]]),
            selection(op_type="Loop", driven="unknown", input=""),
        ],
        selections_new_count=40,
        selections_gone=2,
        selections_changed=3,
        counts={f"Op{index}": [index, index + 1] for index in range(26)},
        domain_uses={f"d{index}": [0, 1] for index in range(25)},
        operators_added=["Where"],
        operators_added_count=9,
        not_compared=["values of weights"],
        meaning=[{"what": "labels", "before": "a, b", "after": "b, a"}],
    )
    rows = list(difference.model_lines(one, ("release", "now")))
    assert rows[0] == ("main: What is declared about inputs or outputs differs.", "", "")
    assert rows[1] == ("", "release", "now")
    assert rows[2][:2] == ("new selection Where (30)", "input features")
    assert rows[2][2].endswith("graph/node[3] and 26 more: top → hit")
    assert rows[3][:2] == ("new selection If (1)", "no input")
    assert rows[4][:2] == ("new selection Loop (1)", "a name that leads nowhere")
    assert ("declared labels", "a, b", "b, a") in rows
    assert ("nodes of further domains", "", "1 more differ, which are not listed") in rows
    assert ("uses of further operators", "", "2 more differ, which are not listed") in rows
    assert ("operators", "", "Where, and 8 more") in rows
    assert ("selections", "2 that are gone", "") in rows
    assert ("selections", "", "3 decided otherwise") in rows
    assert ("new selections", "", "8 more, which are not listed") in rows
    assert rows[-1] == ("not compared: values of weights", "", "")
    html = difference.tables(one)
    assert html.count("graph/node[") == 24 + 1 + 1
    assert "and 6 more" in html
    assert "Not compared: values of weights." in html


def test_names_that_fill_a_terminals_row_are_cut_and_counted() -> None:
    names = ["n" * 500, *(f"name_{index}" for index in range(40))]
    (row,) = [
        one for one in difference.model_lines(model(functions_added=names), ("a", "b")) if one[0] == "functions"
    ]
    assert row[2].startswith("n" * 120 + "… (500 characters), name_0")
    assert len(row[2]) < 400
    shown = row[2].count("name_")
    assert row[2].endswith(f"and {40 - shown} more")


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ("", "The same structure; at most values of weights differ."),
        ("equal", "The same structure. The same weights, by their digests."),
        ("differ", "The same structure. Weights differ: the digest over all values differs"),
    ],
)
def test_weights_are_told_for_what_is_known_of_them(weights: str, said: str) -> None:
    assert difference.sentence(model(weights=weights)).startswith(said)
    assert difference.unchanged(model())[0] == "interface"
    assert "operators" not in difference.unchanged(model(counts={"Add": [1, 2]}))


def test_an_independent_export_is_told_with_its_difference_and_by_whom() -> None:
    second = {
        "file": HOSTILE, "relation": "another graph", "exporter": "<i>torch</i>",
        "difference": model(operators_removed=["Where"]),
    }  # fmt: skip
    report = {"models": [{"name": "main", "independent_export": second}], "difference": None}
    rows = list(difference.terminal_lines(report))
    assert rows[0] == (f"main and its independent export {HOSTILE}: another graph", "", "")
    assert rows[1] == ("", "this", "the other")
    assert rows[2] == ("operators", "Where", "")
    html = difference.independent_section(report["models"])  # type: ignore[arg-type]
    assert "by &lt;i&gt;torch&lt;/i&gt; (the submitter's word)" in html
    assert "<b>" not in html.replace("<b>main", "")
    assert "\x1b" not in html
    assert {"released", "independent"} <= set(html.replace("<", ">").split(">"))
    bare = {"file": "b.onnx", "relation": "not found", "exporter": "", "difference": None}
    assert "submitter" not in difference.independent_section([{"name": "main", "independent_export": bare}])
    assert difference.independent_section([{"name": "main"}]) == ""


def test_a_manifest_of_the_release_that_is_no_valid_one_any_more_is_said_in_both() -> None:
    undeclared = found(bundle={"compared": False, "terms": [{"what": "license", "before": "MIT", "after": "x"}]})
    assert ("license", "MIT", "x") in list(difference.terminal_lines({"difference": undeclared}))
    assert (difference.UNDECLARED, "", "") in list(difference.terminal_lines({"difference": undeclared}))
    assert difference.UNDECLARED in difference.release_section(undeclared)


# -- answers beside the release's


def beside(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "model": "main", "status": "compared", "reason": "", "inputs": [1, 4], "quantised": False, "outputs": [],
        "cost": [], "opsets": [], "placement": [], "operators": [], "moved": [], "skipped": {}, "unanswered": [],
        "release_errors": [], "slowest": [], "basis": "the files", "profiles": None,
    }  # fmt: skip
    return fields | changes


def output(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "output": "y", "kind": "values", "rows": 0, "mismatches": 0, "corrected": 0, "labels": [], "max_abs": 0.0,
        "beyond": 0, "elements": 6, "goldens": 0, "error": 0.0, "release_error": 0.0, "figures": [],
        "sequences": 0, "exact": 0, "worst": {"set": ""}, "incomparable": 0, "note": "",
    }  # fmt: skip
    return fields | changes


def told(**changes: Any) -> list[tuple[str, str, str]]:
    return list(regression.terminal_lines({"regression": [beside(**changes)]}))


def test_what_the_tables_do_not_show_is_said_in_sentences() -> None:
    rows = told(
        outputs=[
            output(
                incomparable=2, note="shape", sequences=9, exact=8, max_abs=0.25, goldens=1, error=0.5,
                worst={"set": "probe:zeros", "index": [1], "release": "1", "now": "2"},
            )
        ],
        skipped={"z": "only the release has it"},
        unanswered=["probe:a"],
        release_errors=["probe:b: no"],
        slowest=[["Conv", "CPU", 1.5]],
        operators=[["Conv", 1, 2], ["Add", 3, 3]],
        moved=[["Conv", "CPU", "QNN"]],
    )  # fmt: skip
    assert ("y: golden error", "0", "0.5") in rows
    assert ("uses of Conv", "1", "2") in rows
    assert ("provider of Conv", "CPU", "QNN") in rows
    assert not [row for row in rows if "Add" in row[0]]
    said = [what for what, before, after in rows if not before and not after]
    for sentence in (
        "y: 8 of 9 rows have the release's tokens.",
        "y differs most at probe:zeros [1]: release 1, now 2.",
        "y: 2 outputs of another form (shape).",
        "z is not compared: only the release has it.",
        "Only the release answers: probe:a.",
        "The release gives errors: probe:b: no.",
        "Operators are told from the files.",
    ):
        assert sentence in said, sentence


def test_each_label_that_lost_rows_is_a_line_and_cost_has_its_ratio() -> None:
    labels = [{"label": f"l{index}", "rows": 10, "missed": index % 2, "corrected": 0} for index in range(40)]
    one = output(rows=400, mismatches=20, corrected=3, labels=labels)
    cost = [
        {"what": "memory", "unit": "bytes", "release": 1024, "now": 2048, "ratio": 2.0},
        {"what": "load", "unit": "ms", "release": "unknown", "now": 2.0, "ratio": None},
    ]
    rows = told(outputs=[one], cost=cost)
    assert ("", "release", "now") in rows
    assert ("y: same class", "", "380 of 400 (95.0%), 3 as the golden expects") in rows
    assert ("y: rows of l1", "10", "9") in rows
    assert not [row for row in rows if row[0] == "y: rows of l0"]
    assert ("memory", "1.0 KiB", "2.0 KiB (x 2.00)") in rows
    assert [row[2] for row in rows if row[0] == "load"] == ["2 ms"]


def test_a_model_that_could_not_be_compared_is_a_heading_alone() -> None:
    rows = told(status="not-comparable", reason="it has no such model")
    assert rows == [("main beside the current release: Not comparable: it has no such model.", "", "")]
    rows = told(status="failed")
    assert rows == [("main beside the current release: The release did not run.", "", "")]
