"""What a request must be before any page is asked, and what every answer carries. Pure ASGI, around the pages.

In this order: the Host header names this console (a rebound DNS name does not), the method and the sizes are as
they may be, a session's cookie is there, and a request that would change something comes from a page of this
console (Fetch Metadata, W3C) and carries the session's word in its form.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from acceptd.web.session import Sessions

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Refuse = Callable[[Request, int, str, str], Any]
"""Makes the answer of a refusal: request, status, message, remedy."""

MAX_BODY: Final = 64 << 10
MAX_TARGET: Final = 2048
BODY_SECONDS: Final = 10.0
MAX_FIELDS: Final = 12
CONTENT_POLICY: Final = (
    "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""No script, no image, no frame, no request but for the style sheet and forms of this console (CSP Level 3)."""
HEADERS: Final = {
    b"content-security-policy": CONTENT_POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"cache-control": b"no-store",
}
OPEN: Final = ("/enter", "/static/console.css")
"""Paths that need no session: the way in, and its looks."""


@dataclass(frozen=True)
class Place:
    """Where the console is reached: the values of Host that are its own, and whether that is by https."""

    hosts: frozenset[str]
    https: bool = False

    @property
    def cookie(self) -> str:
        """The name of the session's cookie: by https one that no other name can set (RFC 6265bis)."""
        return "__Host-acceptd" if self.https else "acceptd"

    def origin_of(self, origin: str) -> bool:
        """Say whether an Origin header (RFC 6454) is of this console."""
        scheme = "https://" if self.https else "http://"
        return origin.startswith(scheme) and origin.removeprefix(scheme) in self.hosts


@dataclass(frozen=True)
class Guard:
    """Stands before ``app``."""

    app: App
    place: Place
    sessions: Sessions
    refuse: Refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            return  # no web sockets; there is no start-up to wait for
        request = Request(scope, receive)
        scope.setdefault("state", {})["cookie"] = ""
        answer = _with_headers(send)
        try:
            await self._admit(request)
        except HTTPException as error:
            refused = self.refuse(request, error.status_code, *_words(error))
            await refused(scope, receive, answer)
            return
        await self.app(scope, _nothing_more, answer)

    async def _admit(self, request: Request) -> None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.place.hosts:
            raise _no(421, "this console has another name", "open the address that `acceptd web` printed")
        if request.method not in {"GET", "HEAD", "POST"}:
            raise _no(405, "this console takes GET and POST", "use its pages")
        if _embedded(request.headers):
            raise _no(403, "another site asked for a part of its own page", "open the console by itself")
        target = len(request.scope["raw_path"] or b"") + len(request.scope["query_string"])
        if target > MAX_TARGET:
            raise _no(414, f"an address of {target} bytes; {MAX_TARGET} are possible", "ask for less at once")
        cookie = next(filter(self.sessions.knows, self._cookies(request)), "")
        request.scope["state"]["cookie"] = cookie
        if not cookie and request.scope["path"] not in OPEN:
            raise _no(401, "this console needs a session", "open the link that `acceptd web` printed")
        if request.method == "POST":
            await self._admit_form(request, cookie)

    async def _admit_form(self, request: Request, cookie: str) -> None:
        self._admit_origin(request)
        body = await _body(request)
        form = await _form(request, body)
        request.scope["state"]["form"] = form
        if request.scope["path"] not in OPEN and not self.sessions.takes(cookie, _text(form, "word")):
            raise _no(403, "the form is not of this session", "load its page again, then send it")

    def _admit_origin(self, request: Request) -> None:
        """Refuse what another site sent. With `no-referrer` browsers send `Origin: null` for a form of our own."""
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        own = site == "same-origin" if site is not None else self.place.origin_of(origin or "")
        if not own or (origin not in {None, "null"} and not self.place.origin_of(str(origin))):
            raise _no(403, "the form was sent by another site", "send it from the console's own page")

    def _cookies(self, request: Request) -> Iterator[str]:
        """Yield what may be a session's cookie, each by itself: the others are of whoever else has a port here.

        A cookie is shared by the ports of a name, may hold what no strict parser reads, and comes twice where a
        second one was set for a longer path (RFC 6265, 5.4); none of that ends somebody's session.
        """
        for header in request.headers.getlist("cookie"):
            for part in header.split(";"):
                name, _, value = part.strip().partition("=")
                if name == self.place.cookie:
                    yield value


def _embedded(headers: Headers) -> bool:
    """Say whether another site's page loads this into itself, or measures how long it takes (Fetch Metadata, W3C).

    On 127.0.0.1 another port's page is of the same site, and brings the session's cookie. A link is fine.
    """
    followed = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    return headers.get("sec-fetch-site") in {"same-site", "cross-site"} and not followed


async def _body(request: Request) -> bytes:
    """Return the body of a request; refuse one that is too large or comes too slowly."""
    said = request.headers.get("content-length", "")
    if said.isascii() and said.isdecimal() and (len(said) > 9 or int(said) > MAX_BODY):
        raise _no(413, f"{said} bytes; {MAX_BODY} are possible", "upload the signed file alone")
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                data += part
                if len(data) > MAX_BODY:
                    raise _no(413, f"more than {MAX_BODY} bytes", "upload the signed file alone")
    except TimeoutError as error:
        raise _no(408, f"the form did not come within {BODY_SECONDS:.0f} s", "send it again") from error
    return bytes(data)


async def _form(request: Request, body: bytes) -> dict[str, str | bytes]:
    """Return the fields of a form: text, and the bytes of a file."""

    async def again() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in {"application/x-www-form-urlencoded", "multipart/form-data"}:
        raise _no(415, "not a form", "use the console's pages")
    try:
        asked = Request(request.scope, again).form(max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_BODY)
        async with asked as form:
            return {key: one if isinstance(one, str) else await one.read() for key, one in form.multi_items()}
    except (HTTPException, MultiPartException, KeyError, ValueError) as error:
        raise _no(400, "a form that cannot be read", "use the console's pages") from error


def _text(form: dict[str, str | bytes], name: str) -> str:
    value = form.get(name)
    return value if isinstance(value, str) else ""


def _no(status: int, message: str, remedy: str) -> HTTPException:
    return HTTPException(status, {"message": message, "remedy": remedy})


def _words(error: Any) -> tuple[str, str]:
    said = error.detail if isinstance(error.detail, dict) else {"message": str(error.detail), "remedy": ""}
    return said["message"], said["remedy"]


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.lower() for name, _ in message.get("headers", ())}
            more = [(name, value) for name, value in HEADERS.items() if name not in own]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return sending


async def _nothing_more() -> Message:
    """Be the body of a request that was read already, and wait for nobody: no page asks for more."""
    return {"type": "http.request", "body": b"", "more_body": False}
