"""The page for whoever cannot see it, reads it on a phone, on paper or in the dark."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from acceptd.report import findings, tables
from acceptd.report.chart import distribution, memory_chart
from acceptd.report.html import render
from acceptd.report.style import CSS
from tests.report_world import HOSTILE, finding, report

pytestmark = pytest.mark.unit
TONES = ("ink", "soft", "link", "accepted", "rejected", "held", "inconclusive")


class _Outline(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.heads: list[str | None] = []
        self.pictures: list[dict[str, str | None]] = []
        self.inside: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in {"h1", "h2", "h3", "h4"}:
            self.headings.append(int(tag[1]))
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [given["href"] or ""] if "href" in given else []
        self.heads += [given.get("scope")] if tag == "th" else []
        self.pictures += [given] if tag == "svg" else []
        if tag not in {"meta", "br", "polyline", "rect", "line"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in {"polyline", "rect", "line"}:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in {"title", "desc"} and "svg" in self.open:
            self.inside.append(data)


def outline(page: str) -> _Outline:
    found = _Outline()
    found.feed(page)
    found.close()
    assert found.open == []
    return found


def test_headings_follow_one_another_and_every_link_leads_somewhere() -> None:
    found = outline(render(report()))
    assert found.headings[0] == 1
    assert found.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(found.headings, found.headings[1:], strict=False))
    assert len(found.ids) == len(set(found.ids))
    assert found.links == [f"#{name}" for name in found.ids]
    assert found.links[0] == "#findings"
    assert found.links[-1] == "#how-to-verify-this-report"


def test_every_table_names_its_columns_and_rows() -> None:
    found = outline(render(report()))
    assert set(found.heads) == {"col", "row"}


def test_a_table_that_is_wider_than_the_screen_can_be_scrolled_by_keyboard() -> None:
    assert '<div class="scroll" tabindex="0"><table>' in tables.table(("a", "b"), [("1", "2")])


def test_many_rows_are_folded_and_a_few_more_than_many_are_not() -> None:
    rows = [(str(number),) for number in range(100)]
    assert "<details><summary>76 more rows</summary>" in tables.table(("a",), rows)
    assert "<details" not in tables.table(("a",), rows[:30])
    assert tables.table(("a",), rows).count("<tr>") == 102


def test_a_chart_has_a_name_and_a_description_and_its_data_in_words() -> None:
    page = distribution("Latency of main", [1.0, 2.0, 2.5, 9.0], {"p50": 2.0})
    found = outline(page)
    (picture,) = found.pictures
    assert (picture["role"], picture["aria-label"]) == ("img", "Latency of main")
    assert found.inside[1] == "4 warm inferences took 1 ms to 9 ms; p50 2 ms"
    assert page.count(found.inside[1]) == 2  # beside the picture too
    assert distribution("x", [1.0, 2.0], {}) == ""


def test_equal_times_and_no_time_at_all_are_one_bar() -> None:
    for value in (0.0, 3.0):
        page = distribution("x", [value] * 5, {"p50": value})
        assert page.count("<rect") == 1
        assert "nan" not in page


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_in_a_chart_stays_text(name: str) -> None:
    text = HOSTILE[name]
    profile = {"seconds": [0.1, 0.2], "bytes_used": [1, 2]}
    for page in (
        distribution(f"Latency of {text}", [1.0, 2.0, 3.0], {"p50": 2.0}),
        memory_chart({"kind": "run", "model": text, "resource_profile": profile}),
        memory_chart({"kind": "run", "model": "", "resource_profile": profile}, text),
    ):
        found = outline(page)
        assert len(found.pictures) == 1
        assert found.headings == []
        assert all(char.isprintable() for char in page)
        assert set(re.findall(r"<(\w+)", page)) <= {
            "figure", "svg", "title", "desc", "polyline", "rect", "line", "div", "span", "figcaption", "b",
        }  # fmt: skip
        assert len(page) < 12_000


# -- findings -------------------------------------------------------------------------------------------


def test_what_is_said_of_a_code_is_said_once_and_many_places_are_folded() -> None:
    many = [finding(where=f"place-{number}") for number in range(9)]
    page = findings.section({"findings": many})
    assert page.count("Compare the exported model") == 1
    assert page.count("Export changed what the model computes.") == 1
    assert "×18" in page
    before, _, after = page.partition("<details")
    assert [f"place-{number}" in before for number in range(9)] == [True] * 4 + [False] * 5
    assert "and 5 more places" in after
    assert all(f"place-{number}" in page for number in range(9))


def test_a_finding_says_what_where_why_and_how_to_mend_it_in_this_order() -> None:
    page = findings.section({"findings": [finding(where="graph/node[3] Conv")]})
    words = ["reject", "parity/mismatch", "An output differs.", "graph/node[3] Conv", "2 of 6 elements exceed"]
    words += ["Why it matters", "Export changed", "CWE-682", "How to mend it", "Compare the exported model"]
    places = [page.index(word) for word in words]
    assert places == sorted(places)


def test_many_notes_do_not_hide_what_decides() -> None:
    notes = [finding(severity="info", code=f"contract/n{number}") for number in range(5)]
    page = findings.section({"findings": [finding(), *notes], "withheld_findings": 2})
    assert page.index("parity/mismatch") < page.index("<details")
    assert "5 notes, for information" in page
    assert "2 more, for reviewers only." in page
    few = findings.section({"findings": notes[:2]})
    assert "<details" not in few
    assert findings.section({"findings": []}) == "<p>None.</p>"


def test_why_it_is_not_promoted_and_where_it_is_stand_at_the_top() -> None:
    made = report(
        promotion_trouble="production: frozen\nstaging: closed", release={"channel": "canary", "number": 3}
    )
    head = render(made).partition("</header>")[0]
    assert head.count("Not promoted") == 2
    assert "Released</b> canary 3" in head


# -- colours --------------------------------------------------------------------------------------------


def schemes() -> dict[str, dict[str, str]]:
    """Return the custom properties of each scheme that the style sheet has."""
    blocks = re.findall(r":root \{([^}]*)\}", CSS)
    values: list[dict[str, str]] = [dict(re.findall(r"--(\w+): (#\w+)", block)) for block in blocks]
    return dict(zip(("light", "dark", "print"), values, strict=True))


def luminance(colour: str) -> float:
    """Return the relative luminance of ``#rgb`` or ``#rrggbb`` (WCAG 2.2, 'relative luminance')."""
    digits = colour.removeprefix("#")
    if len(digits) == 3:
        digits = "".join(digit * 2 for digit in digits)
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours (WCAG 2.2, 'contrast ratio')."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_the_ratio_is_that_of_the_standard() -> None:
    assert contrast("#fff", "#000000") == pytest.approx(21.0)
    assert contrast("#777", "#fff") == pytest.approx(4.48, abs=0.01)  # the well-known grey just below


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
@pytest.mark.parametrize("tone", TONES)
@pytest.mark.parametrize("ground", ["paper", "card"])
def test_every_text_is_readable_in_every_scheme(scheme: str, tone: str, ground: str) -> None:
    colours: dict[str, Any] = schemes()[scheme]
    assert contrast(colours[tone], colours[ground]) >= 4.5
