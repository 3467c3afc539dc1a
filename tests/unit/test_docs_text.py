"""What the documents say must be there: files, make targets, decision records, examples, defaults."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from acceptd import loader
from acceptd.cell.doctor import MEANING
from acceptd.cli import common
from acceptd.config import NUMBERS, TEXTS, InboxTable, Paths, Settings
from acceptd.fleet.settings import FleetTable
from acceptd.judge.codes import CODES
from acceptd.policy import export
from acceptd.policy import manifest as manifests
from acceptd.policy.policy import Wall

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCUMENTS = sorted([README, ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
OPERATIONS = ROOT / "docs" / "operations.md"
FENCE = re.compile(r"^```(\w*)(?: [^\n]*)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = {"tutorials", "howto"}
"""Pages there are done by a test, which finds out about the paths in their blocks by itself."""


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def fences(path: Path, language: str) -> list[str]:
    return [found[2] for found in FENCE.finditer(text_of(path)) if found[1] == language]


def paths_in(text: str) -> set[str]:
    """Paths of the checkout: what begins with one of its top directories, and its files at the top."""
    tops = "|".join(
        ("acceptd", "bench", "docs", "examples", "policies", "sandbox", "systemd", "tests", "tools", "var")
    )
    found = re.findall(rf"(?<![\w./<>-])(?:{tops})/(?:[\w./-]*[\w/])?", text)
    return {*found, *re.findall(r"(?<![\w./-])(?:[A-Z]+\.md|Makefile|pyproject\.toml|requirements\.lock)\b", text)}


def test_the_readme_stays_short() -> None:
    assert len(text_of(README).splitlines()) < 200


def test_the_readme_keeps_its_order() -> None:
    headings = re.findall(r"^## (.*)$", text_of(README), re.MULTILINE)
    assert headings == [
        "What it promises",
        "What it does not promise",
        "Sixty seconds to a first verdict",
        "Threat model in short",
        "Operations",
        "Development",
    ]


def test_paths_are_recognised() -> None:
    assert paths_in("see `docs/bundle.md`, systemd/ and README.md") == {"docs/bundle.md", "systemd/", "README.md"}
    assert paths_in("`/var/lib/acceptd`, `/etc/acceptd/policies` and `store/docs/x`") == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_path_of_the_checkout_exists(document: Path) -> None:
    # Some codes of findings look like paths; of var/ only its page is in the checkout, the rest is state.
    text = FENCE.sub("", text_of(document)) if document.parent.name in RUN else text_of(document)
    said = {path for path in paths_in(text) if path not in CODES and not path.startswith("var/q")}
    assert {path for path in said if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_a_document_that_is_named_beside_another_exists(document: Path) -> None:
    for name in re.findall(r"`((?:decisions/)?[a-z0-9-]+\.md)`", text_of(document)):
        assert (document.parent / name).exists() or (ROOT / "docs" / name).exists(), name


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    said = {word for path in DOCUMENTS for word in re.findall(r"\bmake ([a-z][a-z-]+)\b`", text_of(path))}
    assert {"demo", "setup", "test"} <= said <= targets


@pytest.mark.parametrize("record", DECISIONS, ids=named)
def test_a_decision_record_has_its_sections(record: Path) -> None:
    text = text_of(record)
    assert re.match(rf"# {record.name[:4]}: \S", text)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
    assert 15 <= len(text.splitlines()) <= 30


def test_decision_numbers_are_distinct_and_without_gaps() -> None:
    assert [int(record.name[:4]) for record in DECISIONS] == list(range(1, len(DECISIONS) + 1))


BUNDLES = [(path, text) for path in DOCUMENTS for text in fences(path, "toml") if "[bundle]" in text]


def test_there_are_examples_of_a_manifest() -> None:
    assert {named(path) for path, _ in BUNDLES} >= {"docs/bundle.md"}


@pytest.mark.parametrize(
    ("path", "text"), BUNDLES, ids=lambda value: named(value) if isinstance(value, Path) else ""
)
def test_every_example_of_a_manifest_is_valid(path: Path, text: str) -> None:
    manifest = manifests.validate(tomllib.loads(text))
    assert manifest.declared
    assert manifest.models[0].vectors


def test_bundle_md_names_every_key() -> None:
    text = text_of(ROOT / "docs" / "bundle.md")
    tables = (
        manifests.BundleTable, manifests.DimBounds, manifests.ModelSpec, manifests.InputSpec, manifests.OutputSpec,
        manifests.Tolerance, manifests.VectorsSpec, manifests.Preprocessing, manifests.LabelSchema,
        manifests.LockedFile, manifests.Manifest, manifests.IndependentExport, export.ExportRecord,
        export.Exporter, export.Checkpoint, export.DatasetSource, export.SourceParity, export.Quality,
    )  # fmt: skip
    keys = {field.alias or name for table in tables for name, field in table.model_fields.items()}
    words = set(re.findall(r"[a-z0-9_]+", text))
    assert keys - words == set()
    assert {kind for kind in get_args(manifests.OutputKind) if f"`{kind}`" not in text} == set()


def test_the_settings_are_documented_with_their_defaults() -> None:
    examples = [text for text in fences(OPERATIONS, "toml") if text.startswith("# acceptd.toml")]
    assert len(examples) == 1
    document = tomllib.loads(examples[0])
    assert set(document) == set(Settings.model_fields)
    assert FleetTable.model_validate(document.pop("fleet")) == FleetTable(), "without the table there is no fleet"
    assert Settings.model_validate(document) == Settings()
    assert set(document["inbox"]) == set(InboxTable.model_fields)


def test_environment_variables_are_documented() -> None:
    code = "\n".join(text_of(path) for path in (ROOT / "acceptd").rglob("*.py"))
    known = set(re.findall(r'"(ACCEPTD_(?!CELL_)[A-Z_]+)"', code))
    known |= {f"ACCEPTD_{key.upper().replace('.', '_')}" for key in (*TEXTS, *NUMBERS)}
    text = text_of(OPERATIONS)
    assert {name for name in known if name not in text} == set()
    said = {name for path in DOCUMENTS for name in re.findall(r"\bACCEPTD_[A-Z_]+[A-Z]\b", text_of(path))}
    assert said <= known


def test_every_wall_has_its_row() -> None:
    assert set(get_args(Wall)) == set(MEANING)
    for path in (README, ROOT / "docs" / "threat-model.md"):
        rows = set(re.findall(r"^\| `([a-z_]+)` \|", text_of(path), re.MULTILINE))
        assert set(MEANING) <= rows


def test_every_place_of_the_state_is_documented(tmp_path: Path) -> None:
    text = text_of(OPERATIONS)
    for directory, _ in Paths(tmp_path).directories():
        if directory != tmp_path:
            assert f"{directory.relative_to(tmp_path)}/" in text, directory


def test_exit_codes_are_the_ones_of_the_code() -> None:
    codes = [
        int(code) for code in re.findall(r"^\| (\d+) \|", text_of(ROOT / "docs" / "exit-codes.md"), re.MULTILINE)
    ]
    assert set(codes) == {*common.EXIT_BY_VERDICT.values(), *common.WORST_ORDER, 2, common.EXIT_AUDIT, 130}
    assert ", ".join(str(code) for code in common.WORST_ORDER) in text_of(ROOT / "docs" / "exit-codes.md")
    for verdict, code in common.EXIT_BY_VERDICT.items():
        assert re.search(rf"^\| `{verdict}` \|.*\| {code} \|$", text_of(README), re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_finding_codes_exist(document: Path) -> None:
    groups = {code.partition("/")[0] for code in CODES} - {"policy"}
    said = set(re.findall(rf"`((?:{'|'.join(sorted(groups))})/[a-z-]+)`", text_of(document)))
    assert said - set(CODES) == set()


def test_the_loader_snippet_fits_the_loader() -> None:
    (snippet,) = fences(README, "python")
    calls = [node for node in ast.walk(ast.parse(snippet)) if isinstance(node, ast.Call)]
    (opening,) = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "open_release"]
    keywords = {word.arg: None for word in opening.keywords if word.arg}
    inspect.signature(loader.open_release).bind(*opening.args, **keywords)
    assert hasattr(loader.OpenRelease, "session")
