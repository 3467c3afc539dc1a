"""Who is let in, and what every answer carries: the console's walls, each named after what would get through."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from acceptd.web import guard
from acceptd.web.guard import HEADERS, MAX_BODY, Place
from acceptd.web.session import LIFE_SECONDS, MOST, Sessions
from tests.web_world import Visit, WebWorld, addresses, make, visit

pytestmark = pytest.mark.unit


def test_every_answer_carries_the_headers_also_an_error_and_a_refusal(world: WebWorld, inside: Visit) -> None:
    with visit(world) as outside:
        answers = [inside.get(address) for address in addresses(world).values()]
        answers += [outside.get("/"), outside.get("/enter"), outside.get("/static/console.css")]
        answers += [
            inside.get("/", host="evil.example"),
            inside.get("/?state=zz"),
            inside.post("/leave", word="no"),
        ]
    assert {one.status_code for one in answers} == {200, 400, 401, 403, 404, 421}
    for one in answers:
        for name, value in HEADERS.items():
            assert one.headers[name.decode()] == value.decode(), (one.url, name)
        assert "script" not in one.headers["content-security-policy"]
        assert "server" not in one.headers


def test_the_policy_admits_nothing_but_the_style_sheet_and_own_forms() -> None:
    policy = dict(part.split(" ", 1) for part in HEADERS[b"content-security-policy"].decode().split("; "))
    assert policy == {
        "default-src": "'none'", "style-src": "'self'", "form-action": "'self'", "frame-ancestors": "'none'",
        "base-uri": "'none'",
    }  # fmt: skip


def test_the_report_is_alone_in_an_origin_of_its_own(world: WebWorld, inside: Visit) -> None:
    answer = inside.get(f"/submissions/{world.hostile}/report")
    parts = answer.headers["content-security-policy"].split("; ")
    assert "sandbox" in parts
    assert "default-src 'none'" in parts
    assert "frame-ancestors 'none'" in parts
    assert "form-action 'none'" in parts
    assert not any("self" in part or "unsafe" in part for part in parts)
    assert "<script" not in answer.text


@pytest.mark.parametrize(
    "host", ["evil.example", "console.test", "console.test:80", "127.0.0.1:8460.evil.example", ""]
)
def test_a_rebound_name_gets_nothing(inside: Visit, host: str) -> None:
    answer = inside.get("/", host=host)
    assert answer.status_code == 421
    assert "sub-" not in answer.text


@pytest.mark.parametrize(
    "address", ["/", "/ledger", "/models", "/replay?policy=strict", "/ledger/1/proof.json", "/x"]
)
def test_without_a_session_nothing_is_shown(world: WebWorld, address: str) -> None:
    with visit(world) as outside:
        outside.client.cookies.set("acceptd", "guessed")
        answer = outside.get(address)
    assert answer.status_code == 401
    assert world.world.ledger.origin not in answer.text
    assert "mosaic" not in answer.text


def test_a_token_opens_one_session_and_the_next_one_is_told(world: WebWorld) -> None:
    with visit(world) as first, visit(world) as other:
        token = first.sessions.token
        assert token in first.get(f"/enter?token={token}").text, "the form is filled in, the token not yet spent"
        assert other.post("/enter", token=token).status_code == 401, "of another console"
        answer = first.post("/enter", token=token)
        assert answer.status_code == 303
        cookie = answer.headers["set-cookie"]
        assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/"))
        assert first.told == [first.sessions.token]
        assert first.sessions.token != token
        first.client.cookies.clear()
        assert first.post("/enter", token=token).status_code == 401, "used"
        assert first.get("/").status_code == 401


def test_behind_tls_the_cookie_never_goes_without_it_and_no_neighbouring_name_sets_it(world: WebWorld) -> None:
    with visit(world, https=True) as one:
        cookie = one.post("/enter", token=one.sessions.token).headers["set-cookie"]
        assert cookie.startswith("__Host-acceptd=")
        assert all(part in cookie for part in ("Secure", "Path=/"))
        assert "domain" not in cookie.lower()
        assert one.get("/").status_code == 200


@pytest.mark.parametrize(
    "others",
    [
        '{"a":"b"}',
        'x={"a": "b"}',
        'y="a b',
        "=",
        "flag",
        "a[]=1",
        "acceptd=tossed",
        "acceptd=",
        "acceptd",
        "\xe9=1",
    ],
)
def test_cookies_of_other_ports_of_the_name_end_no_session(inside: Visit, others: str) -> None:
    own = f"acceptd={inside.client.cookies['acceptd']}"
    inside.client.cookies.clear()
    for header in (f"{others}; {own}", f"{own}; {others}"):
        assert inside.client.get("/", headers={"cookie": header.encode("latin-1")}).status_code == 200
    assert inside.client.get("/", headers={"cookie": f"x{own}"}).status_code == 401


def test_a_record_that_was_replaced_is_not_mixed_with_the_one_opened(tmp_path: Path) -> None:
    made = make(tmp_path, more=1)
    with visit(made) as one:
        one.enter()
        assert one.get("/").status_code == 200
        ledger = made.state / "ledger.sqlite3"
        ledger.rename(tmp_path / "before")
        for address in ("/", "/ledger/1", f"/submissions/{made.held}/report", "/replay?policy=strict"):
            answer = one.get(address)
            assert answer.status_code == 500, address
            assert "start it again" in answer.text
        (tmp_path / "before").rename(ledger)
        assert one.get("/").status_code == 200
    made.world.close()


@pytest.mark.parametrize("address", ["/ent%0aer", "/enter%3f/../ledger", "/enter%23", "/static/console.css%3f/x"])
def test_what_only_looks_like_the_way_in_needs_a_session(world: WebWorld, address: str) -> None:
    with visit(world) as outside:
        assert outside.get(address).status_code == 401


def test_a_session_ends_by_itself_and_by_its_button(world: WebWorld, inside: Visit) -> None:
    assert inside.post("/leave", word=inside.word).status_code == 200
    assert inside.get("/").status_code == 401
    with visit(world) as one:
        one.enter()
        one.clock += LIFE_SECONDS - 1
        assert one.get("/").status_code == 200
        one.clock += 1
        assert one.get("/").status_code == 401


def test_sessions_are_bounded_and_the_oldest_gives_way() -> None:
    sessions = Sessions()
    cookies = [sessions.enter(sessions.token) for _ in range(MOST + 1)]
    known = [sessions.knows(str(one)) for one in cookies]
    assert known == [False, *[True] * MOST]


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin", "origin": "http://evil.example"},
        {"sec-fetch-site": "same-origin", "origin": "https://console.test:8460"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {},
    ],
)  # fmt: skip
def test_a_form_of_another_site_changes_nothing_even_with_cookie_and_word(
    inside: Visit, headers: dict[str, str]
) -> None:
    answer = inside.client.post("/leave", data={"word": inside.word}, headers=headers)
    assert answer.status_code == 403
    assert inside.get("/").status_code == 200


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
@pytest.mark.parametrize(
    ("mode", "dest"),
    [
        ("no-cors", "image"),
        ("no-cors", "empty"),
        ("cors", "empty"),
        ("navigate", "iframe"),
        ("navigate", "object"),
    ],
)
def test_another_site_loads_no_page_into_its_own_and_times_none(
    inside: Visit, site: str, mode: str, dest: str
) -> None:
    headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
    for address in ("/replay?policy=strict", "/static/console.css", "/enter"):
        assert inside.client.get(address, headers=headers).status_code == 403


def test_a_link_from_elsewhere_is_followed(inside: Visit) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert inside.client.get("/", headers=headers).status_code == 200
    assert (
        inside.client.get("/", headers={"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}).status_code == 200
    )


def test_a_browser_without_fetch_metadata_is_known_by_its_origin(inside: Visit) -> None:
    headers = {"origin": "http://console.test:8460"}
    assert inside.client.post("/leave", data={"word": inside.word}, headers=headers).status_code == 200


def test_a_form_without_the_word_of_its_session_changes_nothing(world: WebWorld, inside: Visit) -> None:
    with visit(world) as other:
        other.enter()
        words = ["", "0" * 64, other.word, inside.word.upper()]
    for word in words:
        assert inside.post("/leave", word=word).status_code == 403
    assert inside.post("/leave", other="x").status_code == 403
    assert inside.get("/").status_code == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(inside: Visit, method: str) -> None:
    assert inside.client.request(method, "/").status_code == 405


def test_a_post_to_a_page_that_only_reads_is_refused(inside: Visit) -> None:
    assert inside.post("/ledger", word=inside.word).status_code == 405


def test_a_large_body_is_refused_whether_it_says_its_size_or_not(inside: Visit) -> None:
    headers = {"sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}
    body = b"word=" + b"a" * MAX_BODY
    assert inside.client.post("/leave", content=body, headers=headers).status_code == 413
    parts = (body[at : at + 4096] for at in range(0, len(body), 4096))
    assert inside.client.post("/leave", content=parts, headers=headers).status_code == 413


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"{}"),
        ("text/plain", b"word=x"),
        ("multipart/form-data", b"no boundary"),
        ("multipart/form-data; boundary=x", b"--x\r\nbroken"),
        ("application/x-www-form-urlencoded", b"&".join(b"k%d=1" % at for at in range(100))),
    ],
)
def test_what_is_no_form_of_ours_is_refused_in_words(inside: Visit, kind: str, body: bytes) -> None:
    headers = {"sec-fetch-site": "same-origin", "content-type": kind}
    answer = inside.client.post("/leave", content=body, headers=headers)
    assert answer.status_code in {400, 403, 415}
    assert "Traceback" not in answer.text


def test_a_body_that_never_comes_is_given_up(world: WebWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.01)
    answers: list[Any] = []

    async def never() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        answers.append(message)

    with visit(world) as one:
        headers = [(b"host", b"console.test:8460"), (b"sec-fetch-site", b"same-origin"), (b"content-length", b"9")]
        scope = {
            "type": "http", "method": "POST", "path": "/enter", "raw_path": b"/enter", "query_string": b"",
            "headers": headers, "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 8460),
        }  # fmt: skip
        asyncio.run(one.client.app(scope, never, send))
    assert answers[0]["status"] == 408


def test_a_long_address_is_refused(inside: Visit) -> None:
    assert inside.get("/?code=" + "a" * 3000).status_code == 414


def test_an_error_of_ours_shows_no_traceback(inside: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ValueError("a secret of the inside")

    monkeypatch.setattr(type(inside.house), "book", broken)
    answer = inside.get("/releases")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    for name, value in HEADERS.items():
        assert answer.headers[name.decode()] == value.decode()


def test_an_origin_is_the_whole_of_scheme_name_and_port() -> None:
    place = Place(frozenset({"a.test:1"}))
    assert place.origin_of("http://a.test:1")
    assert not any(
        map(place.origin_of, ["https://a.test:1", "http://a.test", "a.test:1", "http://a.test:1/x", "null"])
    )
