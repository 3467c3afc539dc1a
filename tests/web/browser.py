"""A console in a thread and Debian's Chromium before it, for the tests in a real browser."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

from acceptd.web import serve
from acceptd.web.app import build
from acceptd.web.house import House
from acceptd.web.session import Sessions
from tests.web_world import WebWorld

PATIENCE_MS = 90_000
"""Until a wait gives up: a test never passes by waiting, and a machine may be busy."""
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@dataclass
class Served:
    """One console on a free port, and what its tokens are."""

    address: str
    sessions: Sessions


@contextmanager
def served(world: WebWorld) -> Iterator[Served]:
    """Serve a world as `acceptd web --port 0` does."""
    house, sessions = House.open(world.state), Sessions()
    opened, place, address = serve.listen(serve.Wish(port=0))
    server = uvicorn.Server(serve._config(build(house, sessions, place)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        yield Served(address, sessions)
    finally:
        server.should_exit = True
        thread.join(60)
        opened.close()
        house.ledger.close()
        assert not thread.is_alive()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Debian's Chromium."""
    path = shutil.which("chromium")
    assert path is not None, "run `make test-web`, which installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Reader:
    """Somebody before a browser, inside of a console; ``complaints`` are what the browser said on its console."""

    page: Page
    served: Served
    complaints: list[str] = field(default_factory=list)

    def go(self, address: str) -> Any:
        """Open an address of the console."""
        return self.page.goto(f"{self.served.address}{address}")


@contextmanager
def reader(browser: Browser, one: Served) -> Iterator[Reader]:
    """Enter by the printed address and the button."""
    context = browser.new_context(accept_downloads=True)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    made = Reader(page, one)
    page.on("console", lambda message: made.complaints.append(message.text))
    page.on("pageerror", lambda error: made.complaints.append(str(error)))
    page.on("dialog", lambda dialog: (made.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.goto(f"{one.address}/enter?token={one.sessions.token}")
    page.get_by_role("button", name="Open the console").click()
    page.wait_for_url(f"{one.address}/")
    try:
        yield made
    finally:
        context.close()
