"""The command itself: where it listens, who can connect, how it ends; and that a page needs no private key."""

from __future__ import annotations

import http.client
import logging
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from acceptd.errors import UsageError
from acceptd.web import serve
from tests.web_world import NASTY, ROOT, Visit, WebWorld, addresses

pytestmark = pytest.mark.acceptance


@contextmanager
def running(world: WebWorld, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `acceptd web`; yield the process and the address that it printed."""
    command = [sys.executable, "-m", "acceptd", "web", *words, "--state", str(world.state)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("open http"), (line, process.stderr and process.stderr.read())
        yield process, line.removeprefix("open ").strip()
    finally:
        process.kill()
        process.communicate()


def test_it_prints_an_address_that_opens_once_and_ends_in_order(world: WebWorld) -> None:
    with running(world, "--port", "0") as (process, address):
        found = re.fullmatch(r"http://(acceptd-[0-9a-f]{16}\.localhost:(\d+))/enter\?token=([\w-]{43})", address)
        assert found is not None
        host, port, token = found.groups()
        asked = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        asked.request("GET", "/", headers={"Host": host})
        answer = asked.getresponse()
        assert answer.status == 401
        assert "server" not in {name.lower() for name, _ in answer.getheaders()}
        answer.read()
        form = {"Host": host, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
        asked.request("POST", "/enter", body=f"token={token}", headers=form)
        answer = asked.getresponse()
        answer.read()
        assert answer.status == 303
        cookie = str(answer.getheader("set-cookie")).partition(";")[0]
        assert process.stdout is not None
        second = process.stdout.readline()
        assert second.startswith(f"open http://{host}/enter?token=")
        assert token not in second
        asked.request("GET", "/", headers={"Host": host, "Cookie": cookie})
        assert asked.getresponse().status == 200
        asked.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_socket_file_is_its_owners_alone_and_goes_with_the_console(world: WebWorld, tmp_path: Path) -> None:
    path = tmp_path / "console.sock"
    with running(world, "--unix", str(path)) as (process, address):
        status = path.lstat()
        assert stat.S_ISSOCK(status.st_mode)
        assert stat.S_IMODE(status.st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(str(path))
            asked.sendall(f"GET / HTTP/1.1\r\nHost: {address.split('/')[2]}\r\nConnection: close\r\n\r\n".encode())
            assert asked.recv(64).startswith(b"HTTP/1.1 401 ")
        with pytest.raises(UsageError, match="in use"):
            serve.listen(serve.Wish(unix=path))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert not path.exists()


def test_a_socket_file_that_nobody_answers_is_taken_over_and_any_other_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "console.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    opened, _, _ = serve.listen(serve.Wish(unix=path))
    opened.close()
    path.unlink()
    path.write_text("somebody's")
    with pytest.raises(UsageError):
        serve.listen(serve.Wish(unix=path))
    assert path.read_text() == "somebody's"


@pytest.mark.parametrize("what", ["a file", "a link to a file", "a directory", "a live socket"])
def test_a_path_that_is_taken_is_left_as_it_is(world: WebWorld, tmp_path: Path, what: str) -> None:
    path, file = tmp_path / "taken", tmp_path / "file"
    file.write_text("somebody's")
    with socket.socket(socket.AF_UNIX) as live:
        if what == "a file":
            path.hardlink_to(file)
        elif what == "a link to a file":
            path.symlink_to(file)
        elif what == "a directory":
            path.mkdir()
        else:
            live.bind(str(path))
            live.listen()
        before = path.lstat().st_ino
        with pytest.raises(UsageError, match="in use"):
            serve.serve(world.state, serve.Wish(unix=path), lambda _: None)
        assert path.lstat().st_ino == before
    assert file.read_text() == "somebody's"


def test_what_took_the_place_of_the_socket_file_outlives_the_console(tmp_path: Path) -> None:
    path = tmp_path / "console.sock"
    wish = serve.Wish(unix=path)
    opened, _, _ = serve.listen(wish)
    with opened, serve._file_of(wish):
        (tmp_path / "fresh").write_text("of somebody else")
        (tmp_path / "fresh").replace(path)
    assert path.read_text() == "of somebody else"


def test_an_output_that_nobody_reads_any_more_shuts_nobody_out(world: WebWorld) -> None:
    with running(world, "--port", "0") as (process, address):
        assert process.stdout is not None
        process.stdout.close()
        parts = urlsplit(address)
        asked = http.client.HTTPConnection("127.0.0.1", int(parts.port or 0), timeout=60)
        form = {
            "Host": parts.netloc,
            "Sec-Fetch-Site": "same-origin",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        asked.request("POST", "/enter", body=parts.query, headers=form)
        answer = asked.getresponse()
        assert answer.status == 303
        assert answer.getheader("set-cookie")
        asked.close()
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        said = process.stderr.read()
    assert "the next address cannot be printed" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://a.example", "a.example"), ("https://a.example:443", "a.example"),
        ("http://a.example:80", "a.example"),
        ("https://A.example:8443", "a.example:8443"), ("https://[2001:db8::1]", "[2001:db8::1]"),
    ],
)  # fmt: skip
def test_the_scheme_s_own_port_is_no_part_of_what_a_browser_sends(origin: str, host: str) -> None:
    opened, place, _ = serve.listen(serve.Wish(port=0, origin=origin))
    opened.close()
    assert host in place.hosts
    assert place.origin_of(f"{origin.partition(':')[0]}://{host}")


def test_on_port_80_the_console_goes_by_its_names_alone(tmp_path: Path) -> None:
    opened, place, address = serve.listen(serve.Wish(unix=tmp_path / "s", port=80))
    opened.close()
    assert {"localhost", "localhost:80", "127.0.0.1"} <= place.hosts
    assert address.removeprefix("http://") in place.hosts


def test_another_loopback_address_is_printed_and_answered_to() -> None:
    opened, place, address = serve.listen(serve.Wish(host="127.0.0.2", port=0))
    port = opened.getsockname()[1]
    opened.close()
    assert address == f"http://127.0.0.2:{port}"
    assert f"127.0.0.2:{port}" in place.hosts


def test_a_socket_file_without_a_port_to_be_reached_by_is_refused_before_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--port"):
        serve.listen(serve.Wish(unix=tmp_path / "s", port=0))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "8.8.8.8"])
def test_it_refuses_what_other_machines_reach_and_says_why(host: str) -> None:
    with pytest.raises(UsageError, match="speaks no TLS"):
        serve.listen(serve.Wish(host=host, port=0))


@pytest.mark.parametrize("host", ["localhost.evil.example", "example.com", "", "127.0.0.1 "])
def test_a_host_is_an_address(host: str) -> None:
    with pytest.raises(UsageError, match="no IP address"):
        serve.listen(serve.Wish(host=host, port=0))


def test_beyond_loopback_only_on_request_and_its_names_stay_the_own_ones() -> None:
    opened, place, address = serve.listen(serve.Wish(host="0.0.0.0", port=0, beyond_loopback=True))
    port = opened.getsockname()[1]
    opened.close()
    assert f"0.0.0.0:{port}" not in place.hosts
    assert all(name.rpartition(":")[0].endswith(("localhost", "127.0.0.1", "[::1]")) for name in place.hosts)
    assert address.startswith("http://acceptd-")


def test_two_consoles_have_names_of_their_own() -> None:
    names = set()
    for _ in range(2):
        opened, _, address = serve.listen(serve.Wish(port=0))
        opened.close()
        names.add(address.rpartition(":")[0])
    assert len(names) == 2


def test_a_port_that_is_taken_is_one_line(world: WebWorld) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="in use"):
            serve.listen(serve.Wish(port=taken.getsockname()[1]))


def test_behind_a_proxy_its_name_counts_and_cookies_need_tls() -> None:
    opened, place, address = serve.listen(serve.Wish(port=0, origin="https://Console.example"))
    opened.close()
    assert address == "https://Console.example"
    assert place.https
    assert place.origin_of("https://console.example")
    assert not place.origin_of("http://console.example")


@pytest.mark.parametrize(
    "origin",
    [
        "console.example",
        "https://",
        "https://a.example/",
        "ftp://a.example",
        "https://u@a.example",
        "https://a/b",
        "https://[::1",
        "https://a:99999",
        "https://a:x",
        "https://a:0",
        "https://a b",
        "https://é.example",
        "https://*",
        "https://a.example'><b>",
    ],
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(UsageError, match="--origin"):
        serve.listen(serve.Wish(port=0, origin=origin))


def test_every_page_does_without_the_private_keys(world: WebWorld, inside: Visit) -> None:
    keys = world.state / "keys"
    keys.rename(world.state / "away")
    keys.mkdir(0o700)
    try:
        for name, address in addresses(world).items():
            if name != "no such page":
                assert inside.get(address).status_code == 200, name
    finally:
        keys.rmdir()
        (world.state / "away").rename(keys)


def test_a_traceback_reaches_the_terminal_without_what_drives_it(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("uvicorn.error")
    before = logger.handlers, logger.propagate, logger.level
    try:
        serve.log_to_stderr()
        try:
            raise ValueError(NASTY)
        except ValueError:
            logger.exception("Exception in ASGI application")
    finally:
        logger.handlers, logger.propagate, _ = before
        logger.setLevel(before[2])
    said = capsys.readouterr().err
    assert "ValueError" in said
    assert "test_serve.py" in said
    assert all(char.isprintable() or char == "\n" for char in said)


def test_a_form_that_cannot_be_read_is_no_line_in_the_terminal(
    inside: Visit, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "handlers", [])
    serve.log_to_stderr()
    headers = {"sec-fetch-site": "same-origin", "content-type": "multipart/form-data; boundary=x"}
    for body in (b"--y\r\n", b"--xz", b"--x\r\n\x1b: a\r\n\r\n"):
        assert inside.client.post("/enter", content=body, headers=headers).status_code in {400, 401}
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_it_loads_no_model_library_and_no_numpy() -> None:
    code = (
        "import sys, acceptd.web.serve, acceptd.web.pages.decide\n"
        "print(sorted({'onnx', 'onnxruntime', 'numpy', 'google.protobuf'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
