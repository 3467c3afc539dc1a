"""The reserve: real blocks, made once, where there is room. What it is for: tests/crash/test_disk_faults.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acceptd.record import reserve

pytestmark = pytest.mark.unit


def test_it_is_made_once_with_real_blocks_and_stays_while_there_is_room(tmp_path: Path) -> None:
    assert reserve.keep(tmp_path, 1 << 20)
    status = (tmp_path / reserve.NAME).stat()
    assert status.st_size == 1 << 20
    assert status.st_blocks * 512 >= 1 << 20
    assert status.st_mode & 0o077 == 0
    assert reserve.keep(tmp_path, 1 << 20)
    assert not reserve.give_way(tmp_path)
    assert os.listdir(tmp_path) == [reserve.NAME]


def test_without_room_for_twice_its_size_it_is_not_made(tmp_path: Path) -> None:
    assert not reserve.keep(tmp_path, reserve.free_bytes(tmp_path))
    assert os.listdir(tmp_path) == []
