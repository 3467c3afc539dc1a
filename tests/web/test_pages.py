"""What the pages show: all of the record, a page at a time, and no text of a team as anything but text."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from acceptd.errors import LedgerError
from acceptd.report import style
from acceptd.web import queries, render
from acceptd.web.blocks import Page, Table, Text
from tests.release_world import MODEL
from tests.report_world import HOSTILE
from tests.web_world import NASTY, OBSERVED, Visit, WebWorld, addresses

pytestmark = pytest.mark.unit

TAGS = {
    "html", "head", "meta", "title", "link", "body", "a", "header", "p", "span", "nav", "ul", "li", "main", "h1",
    "h2", "h3", "footer", "code", "form", "input", "button", "label", "select", "option", "div", "table",
    "caption", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "section", "figure", "figcaption", "svg",
    "line", "b",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "name", "content", "rel", "href", "class", "id", "tabindex", "aria-label", "aria-current",
    "aria-describedby", "aria-labelledby", "role", "scope", "data-label", "method", "action", "enctype", "type",
    "value", "for", "maxlength", "autocomplete", "spellcheck", "required", "selected", "checked", "x1", "y1", "x2",
    "y2", "viewbox", "preserveaspectratio", "vector-effect",
}  # fmt: skip


INVISIBLE = re.compile(
    r"[^\n\x20-\x7e\u00a0-\uffff]|[\xad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ue000-\uf8ff\ufeff]"
)


class Strict(HTMLParser):
    """Notes every element, attribute and address that is none of ours."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.strange: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            self.strange.append(tag)
        for name, value in attrs:
            if name not in ATTRIBUTES:
                self.strange.append(f"{tag} {name}")
            if name in {"href", "action", "src"} and not re.match(r"^(/|#main$)(?!/)", value or ""):
                self.strange.append(f"{name}={value}")

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.strange.append("comment")


def parsed(text: str) -> Strict:
    parser = Strict()
    parser.feed(text)
    parser.close()
    return parser


@pytest.mark.parametrize("name", list(addresses(WebWorld(None, "", "", ""))))  # type: ignore[arg-type]
def test_hostile_names_are_text_on_every_page(world: WebWorld, inside: Visit, name: str) -> None:
    answer = inside.get(addresses(world)[name])
    assert answer.status_code == (404 if name == "no such page" else 200)
    found = parsed(answer.text)
    assert found.strange == []
    assert not re.search(
        r"[^\n\x20-\x7e\u00a0-\uffff]|[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]", answer.text
    )


@pytest.mark.parametrize("name", ["queue", "hostile submission", "model", "releases", "entry of a hold"])
def test_hostile_names_are_there_for_the_reviewer_to_read(world: WebWorld, inside: Visit, name: str) -> None:
    text = "".join(parsed(inside.get(addresses(world)[name]).text).text)
    for shown in ("\\x1b[2J", "\\u202e", "<script>alert(1)</script>", "rejected\\x0daccepted"):
        assert shown.replace("\\", "\\\\") in text or shown in text, shown


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_no_block_lets_a_hostile_text_through(text: str) -> None:
    from acceptd.web import blocks as of

    finding = {"severity": text, "code": text, "audience": text, "where": text, "message": text, "count": text,
               "meaning": text, "reason": text, "remedy": text}  # fmt: skip
    field = of.Field(text, text, text, [(text, text)], hint=text)
    everything = [
        Text(text, text), of.Facts([(text, of.Cell(text, of.where(text), text))]),
        Table(text, [text], [[text]]),
        of.Links([(text, of.where(text))]), of.Raw(text, text), of.Finding(finding), of.Pager("", "", text),
        of.Form("/x", text, [field, of.Field(text, text, text)], title=text, post=True, hidden={text: text}),
        of.Timeline(text, [of.Lane(text, text, [of.Mark(1, text, text)])], text, text),
        of.Section(text, [Text(text)]),
    ]  # fmt: skip
    made = render.html(
        Page(text, everything, nav=text, look=text, above=text), render.Frame(text, text, inside=True)
    )
    assert parsed(made).strange == []
    assert not INVISIBLE.search(made)


def test_backticks_of_others_stay_what_they_are() -> None:
    page = Page("t", [Text("$(id) `id`"), Text("run `acceptd <b>`", own=True), Text("one ` alone", own=True)])
    made = render.html(page, render.Frame())
    assert "<p>$(id) `id`</p>" in made
    assert "<p>run <code>acceptd &lt;b&gt;</code></p>" in made
    assert "<p>one ` alone</p>" in made


def test_no_template_goes_around_the_escaping() -> None:
    for path in sorted((render.HERE / "templates").glob("*.html")):
        text = path.read_text("utf-8")
        assert not re.search(r"\|\s*safe|autoescape|Markup|<script|<style|\son\w+=|style=", text), path.name
        markup = re.sub(r"\{%.*?%\}|\{#.*?#\}|\{\{.*?\}\}", "", text)
        assert "=" not in re.sub(r'=""', "", re.sub(r'"[^"]*"', '""', markup)), f"{path.name}: without quotes"


def test_the_colours_are_those_of_the_report() -> None:
    own = (Path(render.HERE) / "static" / "console.css").read_text("utf-8")
    for block in re.findall(
        r"--(?:ink|paper|accepted|rejected|held|inconclusive|soft|line|card|link): [^;]+;", style.CSS
    ):
        assert block in own


def test_paging_shows_each_submission_once_and_ends(world: WebWorld, inside: Visit) -> None:
    seen: list[str] = []
    address, pages = "/", 0
    while address:
        text = inside.get(address).text
        seen += re.findall(r'href="/submissions/([^"/]+)"', text)
        older = re.search(r'<a href="([^"]+)" rel="next">', text)
        address, pages = html.unescape(older[1]) if older else "", pages + 1
    assert pages == 3
    assert len(seen) == len(set(seen)) == 63
    assert seen == sorted(seen, reverse=True)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("verdict=held", 1), ("verdict=rejected", 2), ("verdict=accepted", 25), ("team=mosaic", 25),
        ("team=other", 0),
        ("code=contract/missing", 1), ("code=parity/mismatch", 2), ("code=run/crash", 0), ("state=claimed", 0),
        (f"model={MODEL}&verdict=held", 1), ("model=a/b", 0), ("team=mosaic&before=20261102", 25),
    ],
)  # fmt: skip
def test_filters(inside: Visit, query: str, count: int) -> None:
    answer = inside.get(f"/?{query}")
    assert answer.status_code == 200
    assert len(set(re.findall(r'href="/submissions/([^"/]+)"', answer.text))) == count


@pytest.mark.parametrize(
    "address",
    [
        "/?team=Ümlaut", "/?model=x", "/?verdict=fine", "/?code=%27%20or%201=1", "/?before=%00", "/?unknown=1",
        "/?team=a&team=b", "/ledger?before=-1", "/ledger?text=12", "/ledger?since=yesterday", "/ledger?kind=%22",
        "/replay?policy=reviewers", "/replay?policy=/etc/passwd", "/releases?channel=%3Cb%3E", "/models?after=zz",
        "/portfolio?within=999", "/portfolio?within=-1", "/portfolio?team=%2e%2e",
        f"/submissions/{OBSERVED}/decide",
    ],
)  # fmt: skip
def test_what_a_filter_cannot_mean_is_one_line_with_a_remedy(inside: Visit, address: str) -> None:
    answer = inside.get(address)
    assert answer.status_code == 400
    assert '<p class="bad" role="status">' in answer.text


@pytest.mark.parametrize(
    "address",
    ["/submissions/nobody", "/submissions/..%2f..%2fetc", "/ledger/99999", "/ledger/01", "/models/a/b",
     "/models/a",
     f"/releases/{MODEL}/canary", "/releases/digest/12", "/submissions/nobody/report", "/static/../app.py",
     "/ledger/99999/proof.json", "/ledger/entry?entry=nobody", f"/ledger/entry?entry={'9' * 16}"],
)  # fmt: skip
def test_what_is_not_on_record_is_not_here(inside: Visit, address: str) -> None:
    assert inside.get(address).status_code == 404


def test_the_ledger_is_filtered_by_type_model_time_and_digest(world: WebWorld, inside: Visit) -> None:
    def entries(query: str) -> list[int]:
        return [int(one) for one in re.findall(r'href="/ledger/(\d+)"', inside.get(f"/ledger?{query}").text)]

    assert entries("kind=frozen") == [70]
    assert len(entries("kind=verdict")) == 25
    assert entries("until=2000-01-01T00:00:00Z") == []
    assert len(entries("since=1d")) == 25
    released = entries(f"text={world.released}")
    assert released
    assert set(released) < set(entries(f"model={MODEL}")) | set(range(72))
    leaf = world.world.ledger.entry(5).leaf_hash.hex()
    assert entries(f"text={leaf}") == [5]
    assert entries("model=a/b") == []


def test_an_entry_is_shown_with_its_proof_under_the_signed_checkpoint(world: WebWorld, inside: Visit) -> None:
    text = inside.get("/ledger/5").text
    assert "Verified: the leaf" in text
    for step in world.world.ledger.proof(5, 72).path:
        assert step.hex() in text
    answer = inside.get("/ledger/5/proof.json")
    assert answer.headers["content-disposition"] == 'attachment; filename="proof-5.json"'
    assert answer.json()["seq"] == 5
    assert answer.json()["checkpoint"].startswith(world.world.ledger.origin)
    found = inside.get(f"/ledger/entry?entry={world.held}")
    assert (found.status_code, found.headers["location"]) == (303, "/ledger/71")


def test_an_entry_that_nothing_signed_covers_is_said_to_be_so(world: WebWorld, inside: Visit) -> None:
    later = world.world.ledger.append("note", {"text": "after the checkpoint"}).seq
    text = inside.get(f"/ledger/{later}").text
    assert "no signed checkpoint covers the entry yet" in text
    assert "Verified" not in text


def test_a_checkpoint_that_was_changed_is_said_to_be_so(world: WebWorld, inside: Visit) -> None:
    note = max((world.state / "checkpoints").glob("*.note"))
    honest = note.read_bytes()
    try:
        note.write_bytes(honest.replace(b"\n72\n", b"\n73\n"))
        text = inside.get("/ledger/5").text
    finally:
        note.write_bytes(honest)
    assert "The proof does not hold" in text
    assert "Verified" not in text


def test_a_replay_shows_what_another_policy_would_have_said_and_writes_nothing(
    world: WebWorld, inside: Visit
) -> None:
    before = world.world.ledger.tree()
    text = inside.get("/replay?policy=strict").text
    assert "Judged again" in text
    assert len(set(re.findall(r'href="/submissions/([^"/]+)"', text))) == 25
    assert world.world.ledger.tree() == before


def test_two_replays_at_once_are_refused(inside: Visit) -> None:
    with inside.house.replaying:
        answer = inside.get("/replay?policy=strict")
    assert answer.status_code == 400
    assert "under way" in answer.text


def test_a_replay_stops_when_its_time_is_up_and_goes_on_where_it_was(
    inside: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acceptd.web.pages import replay

    monkeypatch.setattr(replay, "SECONDS", -1.0)
    text = inside.get("/replay?policy=strict").text
    first = re.findall(r'href="/submissions/([^"/]+)"', text)
    assert len(first) == 1
    older = re.search(r'<a href="([^"]+)" rel="next">', text)
    assert older is not None
    second = re.findall(r'href="/submissions/([^"/]+)"', inside.get(html.unescape(older[1])).text)
    assert len(second) == 1
    assert second != first


def test_the_console_cannot_write_to_the_ledger(inside: Visit) -> None:
    with pytest.raises(LedgerError, match="reading alone"):
        inside.house.ledger.append("note", {})


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/submissions/{held}", "Decisions cannot be weighed now"),
        ("/releases", "The policy cannot be read now"),
        ("/observe", "not known: "),
    ],
)
def test_a_policy_that_is_refused_is_said_where_it_is_needed(
    world: WebWorld, inside: Visit, address: str, said: str
) -> None:
    policy = world.world.root / "policies" / "demo.toml"
    honest = policy.read_bytes()
    try:
        policy.write_bytes(b"[nonsense")
        answer = inside.get(address.format(held=world.held))
    finally:
        policy.write_bytes(honest)
    assert answer.status_code == 200
    assert said in answer.text


@pytest.mark.parametrize("address", ["/ledger?kind=verdict", f"/models/{MODEL}"])
def test_a_page_that_is_full_leads_to_the_next_and_the_last_one_ends(
    inside: Visit, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line once, whatever the size of a page; nobody walks in a circle."""
    whole = inside.get(address)
    assert whole.status_code == 200
    wanted = set(re.findall(r'href="/(?:ledger|submissions)/([\w-]+)"', whole.text))
    monkeypatch.setattr(queries, "PAGE", 3)
    seen: list[str] = []
    at = address
    for _ in range(40):
        text = inside.get(at).text
        seen += dict.fromkeys(re.findall(r'href="/(?:ledger|submissions)/([\w-]+)"', text))
        older = re.search(r'href="([^"]*(?:before|after|from)=[^"]*)"', text)
        if older is None:
            break
        at = older.group(1).replace("&amp;", "&")
    else:
        raise AssertionError("it never ends")
    assert wanted <= set(seen)


def test_the_hostile_world_is_hostile() -> None:
    assert len(NASTY) > 500
    assert "\u202e" in NASTY
    assert "</style>" in NASTY
