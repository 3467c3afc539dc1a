"""The console in a real browser: reading, filters, a hostile name, the keyboard alone, 360 px, axe, a decision."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests import commands
from tests.release_world import MODEL, memory_directory
from tests.web.browser import PATIENCE_MS, Reader, Served, chromium, reader, served
from tests.web_world import WebWorld, addresses, make

pytestmark = pytest.mark.acceptance

expect.set_options(timeout=PATIENCE_MS)
NAMES = list(addresses(WebWorld(None, "", "", "")))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def console(world: WebWorld) -> Iterator[Served]:
    with served(world) as one:
        yield one


@pytest.fixture(scope="module")
def shared(browser: Browser, console: Served) -> Iterator[Reader]:
    with reader(browser, console) as one:
        yield one


@pytest.fixture
def at(shared: Reader) -> Reader:
    shared.page.set_viewport_size({"width": 1280, "height": 800})
    shared.page.emulate_media(color_scheme="light")
    shared.complaints.clear()
    return shared


def test_a_reviewer_reads_from_the_queue_to_the_proof(world: WebWorld, at: Reader) -> None:
    page = at.page
    at.go("/")
    page.get_by_role("link", name=world.held).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"held: {world.held}")
    expect(page.get_by_text("contract/missing")).to_be_visible()
    page.get_by_role("definition").get_by_role("link", name="71", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Verified")
    page.get_by_role("link", name=MODEL).click()
    expect(page.get_by_role("img", name=re.compile("^Verdicts: .*accepted"))).to_be_visible()
    page.get_by_role("link", name="history").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{MODEL} on production")
    assert at.complaints == []


def test_a_reviewer_filters_and_pages(at: Reader) -> None:
    page = at.page
    at.go("/")
    page.get_by_label("Verdict").select_option("rejected")
    page.get_by_label("Finding code").fill("parity/mismatch")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("row")).to_have_count(3)
    page.get_by_label("Team").fill("other")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No submission passes the filter here.")).to_be_visible()
    page.get_by_label("Team").fill("<b>")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("That cannot be meant")
    at.go("/")
    for rows in (25, 13):
        page.get_by_role("link", name="Older").click()
        expect(page.get_by_role("row")).to_have_count(rows + 1)
    expect(page.get_by_role("link", name="Older")).to_have_count(0)


@pytest.mark.parametrize(
    "name", ["queue", "hostile submission", "model", "releases", "entry of a hold", "observe"]
)
def test_a_hostile_name_does_nothing(world: WebWorld, at: Reader, name: str) -> None:
    at.go(addresses(world)[name])
    assert at.complaints == [], "no script ran, no dialog opened, nothing was refused by the policy"
    assert at.page.locator("main script, main img, main iframe, main [onmouseover], main [style]").count() == 0
    at.page.get_by_text("<script>alert(1)</script>").first.hover()
    assert at.complaints == []
    assert at.page.title().endswith("acceptd")


def test_the_report_runs_nothing_and_reaches_nothing_of_the_console(world: WebWorld, at: Reader) -> None:
    at.go(f"/submissions/{world.hostile}/report")
    assert at.complaints == []
    expect(at.page.get_by_text("<script>alert(1)</script>").first).to_be_visible()
    assert at.page.evaluate("self.origin") == "null", "the sandbox gives it an origin of its own"


def test_the_policy_of_the_console_stops_what_would_get_in(at: Reader) -> None:
    at.go("/")
    at.page.evaluate(
        """() => { const one = document.createElement('script'); one.textContent = 'window.ran = 1';
        document.body.append(one); const two = new Image(); two.src = '/x.png'; document.body.append(two); }"""
    )
    assert at.page.evaluate("window.ran") is None
    assert any("Content Security Policy" in text for text in at.complaints)


def focused(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(
        """() => { const one = document.activeElement, style = getComputedStyle(one);
        const box = one.getBoundingClientRect();
        return {tag: one.tagName, text: (one.textContent || '').trim(), name: one.name || '', href:
          one.getAttribute('href') || '', outline: style.outlineStyle, width: parseFloat(style.outlineWidth),
          seen: box.width > 0 && box.height > 0 && box.left >= 0}; }"""
    )
    return found


def tab_to(page: Page, what: dict[str, str], most: int = 60) -> None:
    """Press Tab until the element is focused; each one on the way is seen and has an outline."""
    page.wait_for_load_state()
    for _ in range(most):
        page.keyboard.press("Tab")
        one = focused(page)
        assert one["seen"], one
        assert (one["outline"], one["width"] >= 2) == ("solid", True), one
        if all(one[key] == value for key, value in what.items()):
            return
    raise AssertionError(f"{what} is not reached by the keyboard")


def test_the_keyboard_alone_is_enough(world: WebWorld, at: Reader) -> None:
    page = at.page
    at.go("/")
    page.keyboard.press("Tab")
    assert focused(page)["text"] == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    tab_to(page, {"name": "verdict"})
    page.keyboard.press("h")  # held
    tab_to(page, {"tag": "BUTTON", "text": "Filter"})
    page.keyboard.press("Enter")
    expect(page.get_by_role("row")).to_have_count(2)
    tab_to(page, {"href": f"/submissions/{world.held}"})
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"held: {world.held}")
    tab_to(page, {"href": f"/submissions/{world.held}/decide"})
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Decide about {world.held}")
    tab_to(page, {"name": "reason"})
    page.keyboard.type("by the keyboard")
    tab_to(page, {"tag": "BUTTON", "text": "Download the bytes to sign"})
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename == f"decision-{world.held}.json"
    assert b"by the keyboard" in Path(download.value.path()).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_scrolls_sideways_at_360_pixels(world: WebWorld, at: Reader, name: str) -> None:
    for width in (360, 768, 1280):
        at.page.set_viewport_size({"width": width, "height": 800})
        at.go(addresses(world)[name])
        assert at.page.evaluate("document.documentElement.scrollWidth") <= width
        sideways = (
            "[...document.querySelectorAll('main *')].filter(one => one.scrollWidth > one.clientWidth + 1 && "
        )
        sideways += "['auto', 'scroll'].includes(getComputedStyle(one).overflowX)).length"
        assert at.page.evaluate(sideways) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing_serious(world: WebWorld, at: Reader, name: str, scheme: Any) -> None:
    page = at.page
    page.emulate_media(color_scheme=scheme)
    at.go(addresses(world)[name])
    # The policy of the console would stop axe itself; it is passed over for that script alone, in this tab.
    session = page.context.new_cdp_session(page)
    session.send("Page.setBypassCSP", {"enabled": True})
    try:
        at.go(addresses(world)[name])
        found = Axe().run(page).response["violations"]
    finally:
        session.send("Page.setBypassCSP", {"enabled": False})
        session.detach()
    serious = [
        (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in {"serious", "critical"}
    ]
    assert serious == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_the_way_in_either(browser: Browser, console: Served, scheme: Any) -> None:
    context = browser.new_context(bypass_csp=True, color_scheme=scheme)
    page = context.new_page()
    try:
        for address in ("/", "/enter", "/enter?token=abc"):
            page.goto(f"{console.address}{address}")
            found = Axe().run(page).response["violations"]
            assert [one["id"] for one in found if one["impact"] in {"serious", "critical"}] == []
            page.set_viewport_size({"width": 360, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
    finally:
        context.close()


def test_axe_would_find_something(at: Reader) -> None:
    session = at.page.context.new_cdp_session(at.page)
    session.send("Page.setBypassCSP", {"enabled": True})
    try:
        at.go("/")
        at.page.evaluate(
            "document.querySelector('label').remove(); document.documentElement.removeAttribute('lang')"
        )
        found = {one["id"] for one in Axe().run(at.page).response["violations"]}
    finally:
        session.send("Page.setBypassCSP", {"enabled": False})
        session.detach()
    assert {"label", "html-has-lang"} <= found


def test_without_a_session_the_browser_sees_nothing(browser: Browser, console: Served) -> None:
    page = browser.new_context().new_page()
    answer = page.goto(f"{console.address}/")
    assert answer is not None
    assert answer.status == 401
    assert MODEL not in page.content()
    page.context.close()


def test_another_local_server_never_sees_the_cookie(at: Reader) -> None:
    """Cookies are shared by the ports of a host: the console's host is its own."""
    (cookie,) = at.page.context.cookies()
    assert re.fullmatch(r"acceptd-[0-9a-f]{16}\.localhost", cookie["domain"])
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert at.page.context.cookies("http://127.0.0.1/") == []
    assert at.page.context.cookies("http://localhost/") == []


def test_a_reviewer_approves_with_a_signature_from_elsewhere(browser: Browser, tmp_path: Path) -> None:
    root = memory_directory()
    world = make(root, more=2)
    try:
        with served(world) as console, reader(browser, console) as one:
            page = one.page
            one.go(f"/submissions/{world.held}/decide")
            page.get_by_label("Reason").fill("read it")
            with page.expect_download() as download:
                page.get_by_role("button", name="Download the bytes to sign").click()
            download.value.save_as(tmp_path / "payload")
            words = ("--key", str(world.key("ada")), "-o", str(tmp_path / "signed"))
            assert commands.run("review", "sign", str(tmp_path / "payload"), *words).returncode == 0
            page.get_by_label("The signed file").set_input_files(tmp_path / "signed")
            page.get_by_role("button", name="Record the decision").click()
            expect(page.get_by_role("status")).to_have_text("It is on record.")
            expect(page.get_by_text(f"{MODEL} production is now 3")).to_be_visible()
            assert one.complaints == []
    finally:
        world.world.close()
        shutil.rmtree(root)


def test_a_session_ends_by_its_button(browser: Browser, console: Served) -> None:
    with reader(browser, console) as one:
        one.page.get_by_role("button", name="End this session").click()
        expect(one.page.get_by_role("heading", level=1)).to_have_text("Session ended")
        answer = one.go("/")
        assert answer.status == 401
