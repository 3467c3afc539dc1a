"""Figures: every one declared, none with a submitted name, whole files, an address of this host alone."""

from __future__ import annotations

import os
import re
import socket
import threading
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from acceptd.config import MetricsTable
from acceptd.errors import ConfigError
from acceptd.metrics import catalogue
from acceptd.metrics.catalogue import BY_NAME, METRICS
from acceptd.metrics.counting import Counting, counting
from acceptd.metrics.figures import Figures
from acceptd.metrics.serve import Exposition
from acceptd.policy.troubles import Trouble, first
from tools import gen_metrics

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = 'x"} 1\nacceptd_up 0\x1b[2J\u202e'


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def job(kind: str = "run", ending: str = "limit", cause: str = "memory") -> Any:
    return SimpleNamespace(kind=kind, ending=ending, cause=cause)


def outcome(*, code: str = "cell/deadline", verdict: str = "rejected", jobs: Any = (), timings: Any = None) -> Any:
    finding = SimpleNamespace(code=code, severity="reject")
    judgement = SimpleNamespace(verdict=verdict, findings=[finding])
    return SimpleNamespace(
        judgement=judgement, submission=SimpleNamespace(jobs=list(jobs)), timings_ms=timings or {"run": 30.0}
    )


def samples(figures: Figures) -> dict[tuple[str, tuple[str, ...]], float]:
    text = generate_latest(figures.registry).decode()
    return {
        (one.name, tuple(one.labels.values())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.value
    }


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def figures(clock: Clock) -> Figures:
    return Figures(MetricsTable(file="/x.prom"), clock)


def test_verdicts_findings_stages_kills_and_latencies_are_counted(figures: Figures, clock: Clock) -> None:
    figures.claimed("s1")
    clock.now += 0.2
    figures.judged("s1", outcome(jobs=[job(), job(ending="done")]))
    clock.now += 0.2
    figures.promoted("s1")
    found = samples(figures)
    assert found["acceptd_verdicts_total", ("rejected",)] == 1
    assert found["acceptd_findings_total", ("cell/deadline", "reject")] == 1
    assert found["acceptd_jobs_ended_badly_total", ("memory", "limit", "run")] == 1
    assert found["acceptd_stage_seconds_sum", ("run",)] == pytest.approx(0.03)
    assert found["acceptd_drop_to_verdict_seconds_sum", ()] == pytest.approx(0.2)
    assert found["acceptd_drop_to_promoted_seconds_sum", ()] == pytest.approx(0.4)


def test_policies_that_were_read_anew_and_failures_of_our_own_are_counted_apart(figures: Figures) -> None:
    figures.reloaded(accepted=True)
    figures.reloaded(accepted=False)
    figures.reloaded(accepted=False)
    figures.failed()
    found = samples(figures)
    assert found["acceptd_policy_reloads_total", ("accepted",)] == 1
    assert found["acceptd_policy_reloads_total", ("refused",)] == 2
    assert found["acceptd_submission_failures_total", ()] == 1


def test_nothing_that_a_submitter_or_a_job_says_opens_a_series(figures: Figures) -> None:
    figures.claimed(HOSTILE)
    bad = [job(kind=HOSTILE, ending=HOSTILE, cause=HOSTILE), job(cause=HOSTILE * 9)]
    figures.judged(HOSTILE, outcome(code=HOSTILE, verdict=HOSTILE, jobs=bad, timings={HOSTILE: 1.0}))
    figures.replaced(HOSTILE)
    text = generate_latest(figures.registry).decode()
    assert "\x1b" not in text
    assert "acceptd_up 0" not in text
    labels = {value for (_, values), _ in samples(figures).items() for value in values}
    assert labels <= {"other", "reject", "run", "limit", *(str(bound) for bound in catalogue.QUICK), "+Inf"}


def test_a_flood_of_claims_is_not_remembered_without_end(
    figures: Figures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acceptd.metrics.figures._REMEMBERED", 3)
    for number in range(10):
        figures.claimed(str(number))
    assert len(figures._claims) == 3
    figures.judged("0", outcome())  # forgotten: in no histogram
    assert ("acceptd_drop_to_verdict_seconds_count", ()) not in samples(figures)


def test_without_a_place_nothing_is_loaded_and_nothing_is_counted() -> None:
    assert type(counting(MetricsTable())) is Counting
    assert isinstance(counting(MetricsTable(file="/a.prom")), Figures)


def test_the_file_is_replaced_whole_and_is_readable(figures: Figures, tmp_path: Path) -> None:
    place = tmp_path / "acceptd.prom"
    one = Exposition(MetricsTable(file=str(place), seconds=3600), figures.registry)
    figures.replaced("crash: SIGSEGV")
    one.start()
    one.stop()  # the first is written before the first wait
    assert 'acceptd_cell_restarts_total{reason="crash"} 1.0' in place.read_text()
    assert place.stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == [place.name]


def test_a_file_that_cannot_be_written_is_a_line_of_the_log_alone(figures: Figures, tmp_path: Path) -> None:
    one = Exposition(MetricsTable(file=str(tmp_path / "no" / "a.prom")), figures.registry)
    one.start()
    one.stop()
    assert one._told


def ask(address: Any, family: int, path: str) -> str:
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.connect(address)
        sock.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        return b"".join(iter(lambda: sock.recv(65536), b"")).decode()


def test_the_socket_file_answers_metrics_and_nothing_else(figures: Figures, tmp_path: Path) -> None:
    place = tmp_path / "m.sock"
    for _ in range(2):  # again over the name that a killed one left
        one = Exposition(MetricsTable(listen=f"unix:{place}"), figures.registry)
        one.start()
        try:
            assert "# TYPE acceptd_verdicts_total counter" in ask(str(place), socket.AF_UNIX, "/metrics")
            refused = ask(str(place), socket.AF_UNIX, "/../etc/passwd")
            assert refused.startswith("HTTP/1.0 404")
            assert "root" not in refused
        finally:
            one.stop()
    assert place.stat().st_mode & 0o777 == 0o660


def test_no_file_gives_way_to_the_socket_and_a_taken_place_is_said(figures: Figures, tmp_path: Path) -> None:
    place = tmp_path / "precious"
    place.write_text("mine")
    with pytest.raises(ConfigError, match=r"metrics\.listen"):
        Exposition(MetricsTable(listen=f"unix:{place}"), figures.registry).start()
    assert place.read_text() == "mine"


def test_a_port_of_this_host_answers(figures: Figures) -> None:
    one = Exposition(MetricsTable(listen="127.0.0.1:0"), figures.registry)
    one.start()
    try:
        assert one._server is not None
        port = one._server.server_address[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert b"acceptd_verdicts_total" in answer.read()
    finally:
        one.stop()
    assert threading.active_count() < 50


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:9464", ":9464", "[::]:9464", "host:1", "unix:relative", "127.0.0.1:x"]
)
def test_no_other_host_can_be_let_in(listen: str) -> None:
    assert isinstance(first({"listen": listen}, MetricsTable), Trouble)


@pytest.mark.parametrize("file", ["relative.prom", "/etc/passwd", "/a.txt"])
def test_only_a_prom_file_by_its_whole_path_is_written(file: str) -> None:
    assert isinstance(first({"file": file}, MetricsTable), Trouble)


def test_the_page_and_the_alerts_say_what_there_is() -> None:
    assert gen_metrics.TARGET.read_text("utf-8") == gen_metrics.page()
    rules = (ROOT / "docs" / "prometheus-rules.yml").read_text("utf-8")
    named = set(re.findall(r"\bacceptd_[a-z_]+", "\n".join(re.findall(r"expr: (.*)", rules))))
    assert named
    assert named <= set(BY_NAME)
    assert len(BY_NAME) == len(METRICS)
    assert all(one.name.endswith("_total") == (one.kind == "counter") for one in METRICS)


def test_the_alerts_name_chapters_that_the_runbook_has() -> None:
    rules = (ROOT / "docs" / "prometheus-rules.yml").read_text("utf-8")
    chapters = re.findall(r'runbook\.md, "([^"]+)"', rules)
    text = (ROOT / "docs" / "runbook.md").read_text("utf-8")
    assert len(chapters) >= 3
    assert [one for one in chapters if f"## {one}\n" not in text] == []
