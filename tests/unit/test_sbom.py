"""The SBOM of the wheel and the audit of pins: nothing without a hash, nothing skipped that counts as clean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools import audit, sbom, wheel_needs

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
WHEEL = sbom.Root("acceptd", "acceptd-1-py3-none-any.whl", "a" * 64, "b" * 64)


def component(name: str, version: str = "1", ref: str = "") -> dict[str, Any]:
    links = [
        {"type": "vcs", "url": "https://example.com/x"},
        {"type": "distribution", "url": "https://example.com/f"},
    ]
    purl = f"pkg:pypi/{name.lower()}@{version}"
    return {"bom-ref": ref or purl, "name": name, "version": version, "purl": purl, "externalReferences": links}


def scan(*components: dict[str, Any]) -> dict[str, Any]:
    root = {"bom-ref": "root-component", "name": "acceptd", "version": "1"}
    return {"metadata": {"component": root, "tools": {"components": []}}, "components": list(components)}


NEEDS = {"acceptd": ["a-b"], "a-b": ["c"], "c": []}
PINS = {("a-b", "1"): ("2" * 64, "1" * 64), ("c", "1"): ("3" * 64,)}


def test_an_sbom_has_what_the_wheel_needs_with_every_hash_and_nothing_else() -> None:
    found = sbom.composed(scan(component("A_B", ref="x"), component("c"), component("pytest")), NEEDS, PINS, WHEEL)
    assert [one["name"] for one in found["components"]] == ["A_B", "c"]
    files = [one for one in found["components"][0]["externalReferences"] if one["type"] == "distribution"]
    assert [one["hashes"][0]["content"] for one in files] == ["1" * 64, "2" * 64]
    assert found["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]
    assert found["dependencies"] == [
        {"ref": "x", "dependsOn": ["pkg:pypi/c@1"]},
        {"ref": "root-component", "dependsOn": ["x"]},
        {"ref": "pkg:pypi/c@1"},
    ]


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_package_that_the_lock_does_not_pin_ends_the_sbom(version: str) -> None:
    """Another version than the pinned one, and a pin without a hash."""
    pins = PINS | {("c", "1"): ()}
    with pytest.raises(sbom.SbomError, match=f"c {version} of .venv is not in requirements.lock"):
        sbom.composed(scan(component("A_B"), component("c", version)), NEEDS, pins, WHEEL)


def test_a_package_that_is_needed_and_not_installed_ends_the_sbom() -> None:
    with pytest.raises(sbom.SbomError, match="needed and not installed: c"):
        sbom.composed(scan(component("A_B")), NEEDS, PINS, WHEEL)


def test_the_bytes_do_not_depend_on_the_order_of_anything() -> None:
    one = sbom.composed(scan(component("A_B"), component("c")), NEEDS, PINS, WHEEL)
    other = sbom.composed(scan(component("c"), component("A_B")), dict(reversed(NEEDS.items())), PINS, WHEEL)
    assert sbom.text_of(one) == sbom.text_of(other)


def test_an_extra_counts_only_where_somebody_asks_for_it() -> None:
    requires = {
        "a": ["b[fast]>=1", "test-tool; extra == 'test'", "old; python_version < '3'"],
        "b": ["c; extra == 'fast'", "d", "e; extra == 'slow'"],
        "c": ["A"],
        "d": [],
    }
    found = wheel_needs.graph("root", ["a[none]"], requires.__getitem__)
    assert found == {"root": ["a"], "a": ["b"], "b": ["c", "d"], "c": ["a"], "d": []}


def test_every_environment_that_runs_a_tool_is_pinned_with_hashes() -> None:
    for lock in audit.locks():
        text = lock.read_text("utf-8")
        assert text.count("--hash=sha256:") >= len(audit.pins([lock])) > 0, lock.name


# The audit


def answer(*dependencies: dict[str, Any]) -> str:
    return json.dumps({"dependencies": list(dependencies), "fixes": []})


CLEAN = {"name": "a", "version": "1", "vulns": []}
SKIPPED = {"name": "b", "skip_reason": "Dependency not found and could not be audited: b (1)"}
KNOWN = {"name": "c", "version": "1", "vulns": [{"id": "CVE-2030-1", "fix_versions": ["2"]}]}


@pytest.mark.parametrize(
    ("dependencies", "code"),
    [
        ([CLEAN], audit.CLEAN),
        ([CLEAN, SKIPPED], audit.NOT_ASKED),
        ([SKIPPED], audit.NOT_ASKED),
        ([], audit.NOT_ASKED),
        ([CLEAN, SKIPPED, KNOWN], audit.KNOWN),
    ],
)
def test_a_pin_that_could_not_be_looked_up_is_never_clean(dependencies: list[dict[str, Any]], code: int) -> None:
    assert audit.read(answer(*dependencies)).code == code


def test_what_is_known_is_told_with_its_remedy_and_what_was_not_asked_too() -> None:
    words = audit.told(audit.read(answer(CLEAN, SKIPPED, KNOWN)), 1, 3)
    assert "c 1: CVE-2030-1 (fixed in 2)" in words
    assert "1 clean, 1 with known vulnerabilities, 1 not looked up" in words
    assert audit.REMEDY in words


def test_a_service_that_does_not_answer_is_told_in_a_line() -> None:
    found = audit.unreachable("Traceback\n  …\nConnectionError: no route\n")
    assert (found.code, found.skipped) == (audit.NOT_ASKED, {"": "ConnectionError: no route"})


def test_every_version_of_a_pin_is_asked_about(tmp_path: Path) -> None:
    lock = tmp_path / "one.lock"
    lock.write_text(
        "# x==9\nnumpy==1 ; python_full_version < '3.12' \\\n    --hash=sha256:00\n"
        "numpy==2 ; python_full_version >= '3.12' \\\n"
        "    # via b==3\npsycopg[binary]==4\n"
    )
    assert audit.pins([lock, lock]) == ["numpy==1", "numpy==2", "psycopg[binary]==4"]
