"""The pages about escape probes are those that the data gives."""

from __future__ import annotations

import platform

import pytest

from tools import gen_probes

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="raw calls are numbered for x86-64"),
]


def test_the_pages_are_up_to_date() -> None:
    assert gen_probes.TARGET.read_text("utf-8") == gen_probes.page()
    text = gen_probes.MODEL.read_text("utf-8")
    assert gen_probes.BEGIN in text
    assert text == gen_probes.threat_model(text)
