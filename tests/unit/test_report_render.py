"""Terminal and HTML: the remedy is there, hostile text is inert, 80 columns hold it, no script runs."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from rich.console import Console

from acceptd.report import escape
from acceptd.report.html import render
from acceptd.report.terminal import one_line, print_verdict
from tests.report_world import finding, report

pytestmark = pytest.mark.unit
HOSTILE = 'a\x1b]0;owned\x07\x1b[2J\r\n\u202e\u2066<img src=x onerror="alert(1)">\'&[red]\u200b\ud800\0!'


def terminal(made: dict[str, Any], *, encoding: str = "utf-8", **options: bool) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    print_verdict(Console(file=stream, width=80, color_system=None, legacy_windows=False), made, **options)
    return raw.getvalue().decode(encoding)


class TestTerminal:
    def test_a_person_sees_verdict_reason_place_and_remedy(self) -> None:
        text = terminal(report())
        for wanted in ("REJECTED", "mosaic/evidence 1.4.0", "plain", "parity/mismatch", "×2", "Compare the",
                       "12" * 32, "memory_cgroup unavailable", "37 ms", "71.0 MiB", "unanchored"):  # fmt: skip
            assert wanted in text

    def test_a_reviewers_report_of_a_held_bundle_names_the_next_command(self) -> None:
        made = report(verdict="held")
        assert f"acceptd review show {made['submission']}" in terminal(made, every_finding=True)
        assert "acceptd review show" not in terminal(made)

    @pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
    def test_it_fits_eighty_columns_and_drives_no_terminal(self, encoding: str) -> None:
        text = terminal(
            report(HOSTILE * 3, bundle_id=HOSTILE, path=HOSTILE), encoding=encoding, every_finding=True
        )
        assert max(map(len, text.splitlines())) <= 80
        assert all(char.isprintable() for char in text.replace("\n", ""))
        assert "[red]" in "".join(text.split())  # shown, not taken as markup

    def test_information_and_the_seventh_finding_are_only_counted(self) -> None:
        many = [finding(code=f"parity/c{n}") for n in range(9)] + [finding(severity="info", code="structure/note")]
        text = terminal(report(findings=many, withheld_findings=2))
        assert "parity/c5" in text
        assert "parity/c6" not in text
        assert "structure/note" not in text
        assert "6 more findings: " in text
        note, last = finding(severity="info", code="structure/note"), finding(code="parity/c9")
        assert "1 more finding, for information: " in terminal(report(findings=[last, note]))
        assert "2 more findings, for information: " in terminal(report(findings=[note, note]))
        assert "for information" not in terminal(report(findings=[note], withheld_findings=1))
        assert "parity/c8" in terminal(report(findings=many), every_finding=True)

    def test_a_code_that_was_found_often_is_explained_once(self) -> None:
        many = [finding(where=f"place-{n}") for n in range(9)]
        text = terminal(report(findings=many))
        assert text.count("Compare the exported model") == 1
        assert text.count("why Export changed") == 1
        assert "parity/mismatch  ×18" in text
        assert [f"place-{n}" in text for n in range(9)] == [True] * 3 + [False] * 6
        assert "and 6 more places" in text
        assert "6 more findings" in text
        assert all(f"place-{n}" in terminal(report(findings=many), every_finding=True) for n in range(9))

    def test_the_submitters_word_stands_apart_from_what_was_measured(self) -> None:
        declared = {"by": "submitter", "license": "MIT", "purpose": None, "prohibited_uses": [], "export": {}}
        lines = [row.strip() for row in terminal(report(declared=declared)).splitlines()]
        at = next(n for n, row in enumerate(lines) if row.startswith("submitter"))
        assert "acceptd measured none of it" in lines[at]
        assert lines[at + 1].split() == ["licence", "MIT"]
        assert lines[at + 2] == ""
        assert lines[at + 3].startswith("bundle")

    def test_an_accepted_bundle_is_short(self) -> None:
        text = terminal(report(verdict="accepted", findings=[], release={"channel": "production", "number": 42}))
        assert "ACCEPTED" in text
        assert "production 42" in text
        assert len(text.splitlines()) <= 11

    def test_one_line_is_one_line(self) -> None:
        text = one_line(report(HOSTILE, path=HOSTILE))
        assert text.isprintable()
        assert text.startswith("rejected")
        assert "parity/mismatch" in text


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(page: str) -> _Page:
    reader = _Page()
    reader.feed(page)
    reader.close()
    return reader


class TestHtml:
    def test_hostile_text_is_only_text(self) -> None:
        page = render(report(HOSTILE, bundle_id=HOSTILE))
        page.encode()
        reader = parsed(page)
        assert {tag for tag, _ in reader.tags} == {
            "html", "head", "meta", "title", "style", "body", "main", "header", "section", "h1", "h2", "h3", "p",
            "div", "span", "code", "b", "table", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd",
            "figure", "svg", "polyline", "desc", "figcaption", "details", "summary", "nav", "ul", "li", "a", "br",
            "pre",
        }  # fmt: skip
        allowed = {"class", "lang", "charset", "http-equiv", "content", "name", "id", "href", "scope", "tabindex"}
        allowed |= {"aria-label", "aria-hidden"}
        drawn = {
            "role",
            "aria-label",
            "viewbox",
            "preserveaspectratio",
            "points",
            "fill",
            "stroke",
            "stroke-width",
        }
        drawn.add("vector-effect")
        for tag, attributes in reader.tags:
            assert set(attributes) <= (drawn if tag in {"svg", "polyline"} else allowed)
        assert "onerror" in "".join(reader.text)
        assert not [char for char in page if not char.isprintable() and char != "\n"]

    def test_the_content_policy_admits_this_style_and_nothing_else(self) -> None:
        page = render(report())
        style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
        assert style is not None
        assert policy is not None
        digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
        rules = [rule.strip() for rule in policy[1].split(";")]
        assert rules == [
            "default-src 'none'", f"style-src 'sha256-{digest}'", "base-uri 'none'", "form-action 'none'",
        ]  # fmt: skip
        assert "style=" not in page
        assert "url(" not in page
        assert "@import" not in page

    def test_verdict_first_and_everything_a_reviewer_looks_for(self) -> None:
        page = render(report())
        order = ["Findings", "Interface", "Operators and domains", "Time and memory", "Parity"]
        order += ["Walls of the sandbox", "Digests and policy", "Files", "How to verify this report"]
        body = page.partition("<body>")[2]
        assert body.index("rejected") < body.index("mosaic/evidence") < body.index("<nav")
        places = [body.index(f"<h2>{title}</h2>") for title in order]
        assert places == sorted(places)
        for wanted in (
            "Compare the exported model",
            "12" * 32,
            "34" * 32,
            "ab" * 32,
            "prefers-color-scheme",
            "@media print",
        ):
            assert wanted in page

    def test_a_missing_wall_and_a_failed_comparison_stand_out(self) -> None:
        page = render(report())
        assert '<td class="bad">unavailable</td>' in page
        assert '<td class="bad">plain</td>' in page
        assert "<td>enforced</td>" in page

    def test_memory_over_time_is_a_line_and_says_so_in_words(self) -> None:
        reader = parsed(render(report()))
        [picture] = [attributes for tag, attributes in reader.tags if tag == "svg"]
        [line] = [attributes for tag, attributes in reader.tags if tag == "polyline"]
        words = "From 3.0 MiB to 5.0 MiB in 1.2 s, peak 71.0 MiB at 600 ms, 3 samples"
        assert (picture["role"], picture["aria-label"]) == ("img", "Memory of run plain")
        assert line["points"] == "28.7,57.6 300.0,4.0 596.0,56.1"
        assert words + "; 2 threads at most; page faults 1234 minor, 0 major" in "".join(reader.text)

    @pytest.mark.parametrize("profile", [None, {}, {"seconds": [0.05], "bytes_used": [1]}])
    def test_too_few_samples_draw_nothing(self, profile: Any) -> None:
        made = report()
        made["resources"]["jobs"][0]["resource_profile"] = profile
        assert "<svg" not in render(made)

    def test_a_job_without_memory_is_a_flat_line(self) -> None:
        made = report()
        made["resources"]["jobs"][0]["resource_profile"] = {"seconds": [0.0, 0.0], "bytes_used": [0, 0]}
        assert 'points="4.0,60.0 4.0,60.0"' in render(made)

    def test_a_cell_cannot_be_made_bad_by_its_text(self) -> None:
        row = report("\0!x")["models"][0]
        page = render(report(models=[row], parity=[], walls={}))
        assert 'class="bad"' not in page

    def test_very_long_tables_are_cut(self) -> None:
        files = [{"path": f"f{n}", "sha256": "ab" * 32, "size": n} for n in range(500)]
        assert "and 300 more" in render(report(files=files))


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (309, "309 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB"), (5 << 40, "5120.0 GiB")],
)
def test_sizes(count: int, text: str) -> None:
    assert escape.size(count) == text


@pytest.mark.parametrize(("value", "text"), [(0.42, "0.42 ms"), (12.4, "12 ms"), (3100, "3.1 s"), (None, "")])
def test_durations(value: float | None, text: str) -> None:
    assert escape.milliseconds(value) == text
