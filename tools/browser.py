"""Debian's Chromium without a window, driven over its debugging pipe: pages as pictures and as paper.

Chrome DevTools Protocol, NUL-separated JSON on descriptors 3 (to the browser) and 4 (from it). The browser gets no
network: what a page asks for beyond its own file fails.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

Scheme = Literal["light", "dark"]
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--force-color-profile=srgb", "--remote-debugging-pipe",
)  # fmt: skip
TALLEST: Final = 16_000
"""Pixels of a picture: what is below is left out, for Chromium draws no taller one in one piece."""


def binary() -> str | None:
    """Return where Chromium is; None where it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One browser with one page; use it in a ``with`` block."""

    def __init__(self) -> None:
        program = binary()
        if program is None:
            raise FileNotFoundError("chromium is not installed: apt-get install chromium")
        self._home = tempfile.mkdtemp(prefix="acceptd-browser-")
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()

        def descriptors() -> None:
            # First out of the way: either may be 3 or 4 already.
            read, write = os.dup2(to_read, 103), os.dup2(to_write, 104)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self._home}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=descriptors, close_fds=False, start_new_session=True,  # noqa: PLW1509 - there are no threads
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._count = 0
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            os.close(self._out)
        with contextlib.suppress(OSError):
            os.close(self._in)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return what a method of the protocol answers; raise RuntimeError where it fails."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = memoryview(json.dumps(message).encode() + b"\0")
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error'].get('message')}")
                found: dict[str, Any] = answer.get("result", {})
                return found

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._in, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def open(self, page: Path | str, *, width: int = 1280, scheme: Scheme = "light", media: str = "") -> None:
        """Load a file or an address at a width in CSS pixels, in a colour scheme; return when it is drawn."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=800, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.call("Page.navigate", url=page.absolute().as_uri() if isinstance(page, Path) else page)
        self.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done(1)"
            " : window.addEventListener('load', () => done(1)))"
        )

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page, promises waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"].get("exception", {}).get("description"))[:2000])
        return answer["result"].get("value")

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        wide = "Math.ceil(document.documentElement.scrollWidth - window.innerWidth)"
        return int(self.evaluate(wide))

    def picture(self, *, tallest: int = TALLEST, clip: tuple[int, int] | None = None) -> bytes:
        """Return the whole page as PNG, or its upper left ``clip`` (width, height)."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        width, height = clip or (size["width"], min(size["height"], tallest))
        area = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=area)
        return base64.b64decode(answer["data"])

    def paper(self) -> bytes:
        """Return the page as PDF, A4."""
        size = {"paperWidth": 8.27, "paperHeight": 11.69}
        answer = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=False, **size)
        return base64.b64decode(answer["data"])
