"""The console as one ASGI application: addresses and errors to pages, the guard around all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from acceptd.errors import AcceptdError, LoaderError, NoThreadError, ReleaseError, UsageError, UserError
from acceptd.pool import Pool
from acceptd.report.style import CONTENT_POLICY as REPORT_POLICY
from acceptd.web import addresses
from acceptd.web.blocks import Field, Form, Links, Page, Text
from acceptd.web.guard import Guard, Place
from acceptd.web.house import House, NotHereError
from acceptd.web.pages import decide, ledger, models, observe, portfolio, queue, releases, replay, submission
from acceptd.web.render import Frame, html, style
from acceptd.web.session import LIFE_SECONDS, Sessions

addresses.register()
Make = Callable[[Request], Page | Response]
_AT_ONCE: Final = 16
"""Pages that are made at once, at most."""
_REPORT_HEADERS: Final = {"content-security-policy": f"{REPORT_POLICY}; sandbox; frame-ancestors 'none'"}
"""The report stands alone: no script, no form, an origin of its own: nothing in it speaks for the console."""


@dataclass(frozen=True)
class Console:
    """What the pages of one console stand on."""

    house: House
    sessions: Sessions
    place: Place
    pool: Pool = field(default_factory=lambda: Pool(_AT_ONCE, "pages"))
    """Makes the pages: starlette's own threads are begun by waiting for each, for ever where one has no memory."""

    def frame(self, request: Request) -> Frame:
        """Return what stands around a page for whoever asks."""
        cookie = request.scope["state"].get("cookie", "")
        return Frame(self.house.ledger.origin, self.sessions.word(cookie), inside=True) if cookie else Frame()

    def answer(self, request: Request, page: Page, status: int = 200) -> Response:
        """Return a page as an answer."""
        return HTMLResponse(html(page, self.frame(request)), status)

    def trouble(self, request: Request, status: int, message: str, remedy: str = "") -> Response:
        """Return the page of something that went wrong; without a session also the way in."""
        blocks: list[Any] = [Text(message, "bad"), *([Text(remedy, own=True)] if remedy else [])]
        if request.scope["state"].get("cookie"):
            blocks.append(Links([("To the queue", "/")]))
        elif status == 401:
            blocks.append(_way_in(""))
        return self.answer(request, Page(_TITLES.get(status, "It did not work"), blocks), status)

    def page(self, make: Make, *, alone: bool = True) -> Callable[[Request], Any]:
        """Return the endpoint of a page. ``alone``: no other page is made meanwhile."""

        def made(request: Request) -> Response:
            if not alone:
                return self._made(request, make)
            with self.house.turn:
                return self._made(request, make)

        async def endpoint(request: Request) -> Response:
            try:
                beside = asyncio.get_running_loop().run_in_executor(self.pool, made, request)
            except NoThreadError as error:
                return self.trouble(request, 503, error.message, error.remedy)
            return await beside

        return endpoint

    def _made(self, request: Request, make: Make) -> Response:
        try:
            self.house.still()
            found = make(request)
        except NotHereError as error:
            return self.trouble(request, 404, error.message, error.remedy)
        except (UsageError, ReleaseError) as error:
            return self.trouble(request, 400, error.message, error.remedy)
        except UserError as error:
            return self.trouble(request, 500, error.message, error.remedy)
        except (AcceptdError, LoaderError) as error:
            return self.trouble(request, 500, str(error), "`acceptd ledger verify` and `acceptd doctor` say more")
        return self.answer(request, found) if isinstance(found, Page) else found


_TITLES: Final = {
    400: "That cannot be meant",
    401: "Who are you?",
    403: "Refused",
    404: "Not here",
    421: "Another name",
    500: "It did not work",
}


def _way_in(token: str) -> Form:
    hint = "from the address that `acceptd web` printed; it works once"
    field = Field("token", "Token", token, hint=hint, most=128, required=True)
    return Form("/enter", "Open the console", [field], post=True)


def build(house: House, sessions: Sessions, place: Place) -> Any:
    """Return the application for one state directory."""
    console = Console(house, sessions, place)

    def of(make: Callable[..., Page], *names: str, alone: bool = True) -> Callable[[Request], Any]:
        def made(request: Request) -> Page:
            return make(house, *(request.path_params[name] for name in names), request.query_params)

        return console.page(made, alone=alone)

    async def styles(_request: Request) -> Response:
        return Response(style(), media_type="text/css")

    async def enter(request: Request) -> Response:
        if request.method == "POST":
            cookie = sessions.enter(str(request.scope["state"]["form"].get("token") or ""))
            if cookie is None:
                return console.trouble(request, 401, "this token opens nothing, or was used before", _ANOTHER)
            answer = RedirectResponse("/", 303)
            answer.set_cookie(
                place.cookie, cookie, max_age=LIFE_SECONDS, httponly=True, samesite="strict", secure=place.https
            )
            return answer
        token = request.query_params.get("token", "")[:128]
        return console.answer(request, Page("Reviewers' console", [Text(_WELCOME), _way_in(token)]))

    async def leave(request: Request) -> Response:
        sessions.leave(request.scope["state"]["cookie"])
        request.scope["state"]["cookie"] = ""
        answer = console.answer(request, Page("Session ended", [Text(_ANOTHER, own=True)]))
        answer.delete_cookie(place.cookie, httponly=True, samesite="strict", secure=place.https)
        return answer

    def report(request: Request) -> Response:
        return HTMLResponse(submission.report(house, request.path_params["id"]), headers=_REPORT_HEADERS)

    def named(request: Request) -> Response:
        return RedirectResponse(ledger.named(house, request.query_params), 303)

    def proof(request: Request) -> Response:
        number = request.path_params["number"]
        name = f'attachment; filename="proof-{number}.json"'
        headers = {"content-disposition": name}
        return Response(ledger.proof_json(house, number), media_type="application/json", headers=headers)

    def acts(prepare: Callable[..., decide.Download], record: Callable[..., Page], name: str) -> dict[str, Any]:
        """Return the endpoints of one kind of decision, by the last part of their addresses."""

        def prepared(request: Request) -> Response:
            made = prepare(house, request.path_params[name], request.scope["state"]["form"])
            headers = {"content-disposition": f'attachment; filename="{made.name}"'}
            return Response(made.data, media_type="application/json", headers=headers)

        def recorded(request: Request) -> Page:
            upload = request.scope["state"]["form"].get("file")
            data = upload if isinstance(upload, bytes) else b""
            with house.acting:
                return record(house, request.path_params[name], data)

        return {"prepare": console.page(prepared), "record": console.page(recorded, alone=False)}

    def posts(address: str, endpoints: dict[str, Any]) -> list[Any]:
        return [Route(f"{address}/{key}", one, methods=["POST"]) for key, one in endpoints.items()]

    on_submission = acts(decide.prepare_decision, decide.record_decision, "id")
    on_bundle = acts(decide.prepare_revocation, decide.record_revocation, "digest")
    app = Starlette(
        routes=[
            Route("/static/console.css", styles),
            Route("/enter", enter, methods=["GET", "POST"]),
            Route("/leave", leave, methods=["POST"]),
            Route("/", of(queue.queue)),
            Route("/submissions/{id:word}", of(submission.submission, "id")),
            Route("/submissions/{id:word}/report", console.page(report)),
            Route("/submissions/{id:word}/decide", of(decide.decision, "id")),
            *posts("/submissions/{id:word}/decide", on_submission),
            Route("/models", of(models.models)),
            Route("/models/{team:word}/{name:word}", of(models.history, "team", "name")),
            Route("/releases", of(releases.releases)),
            Route("/releases/digest/{digest:sha256}", of(releases.bundle, "digest")),
            Route("/releases/digest/{digest:sha256}/revoke", of(decide.revoke, "digest")),
            *posts("/releases/digest/{digest:sha256}/revoke", on_bundle),
            Route(
                "/releases/{team:word}/{name:word}/{channel:word}",
                of(releases.channel_history, "team", "name", "channel"),
            ),
            Route("/ledger", of(ledger.ledger)),
            Route("/ledger/entry", console.page(named)),
            Route("/ledger/{number:seq}", of(ledger.entry, "number")),
            Route("/ledger/{number:seq}/proof.json", console.page(proof)),
            Route("/portfolio", of(portfolio.portfolio)),
            Route("/observe", of(observe.observe)),
            Route("/replay", of(replay.replay, alone=False)),
        ],
        exception_handlers={HTTPException: _http_trouble(console), Exception: _trouble(console)},
    )
    return Guard(app, place, sessions, console.trouble)


_ANOTHER: Final = "`acceptd web` prints the next address each time one was used: it stands in its terminal."
_WELCOME: Final = "What this instance has judged, recorded and released. The address that led here works once."


def _http_trouble(console: Console) -> Callable[[Request, Any], Any]:
    async def handler(request: Request, error: Any) -> Response:
        message = "there is no such page" if error.status_code == 404 else str(error.detail).lower()
        return console.trouble(request, error.status_code, message)

    return handler


def _trouble(console: Console) -> Callable[[Request, Exception], Any]:
    async def handler(request: Request, error: Exception) -> Response:
        # Starlette raises it once more after this, and the server logs it, for the operator alone.
        return console.trouble(
            request, 500, f"internal error: {type(error).__name__}", "the terminal of `acceptd web` says more"
        )

    return handler
