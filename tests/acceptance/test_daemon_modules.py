"""Rule 1 on a live daemon: after a whole acceptance its modules show no model library and no numpy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples import evidence_classifier as classifier
from tests.world import ROOT, TEAM, World

pytestmark = pytest.mark.acceptance

PROGRAM = """
import sys, threading, time, pathlib
from acceptd.config import Paths, load_settings
from acceptd.daemon import Daemon
state = pathlib.Path(sys.argv[1])
daemon = Daemon(Paths(state), load_settings(state))
thread = threading.Thread(target=daemon.run)
thread.start()
outbox = state / "outbox" / sys.argv[2]
while not list(outbox.glob("*/verdict.json")) and thread.is_alive():
    time.sleep(0.01)
print("judged", len(list(outbox.glob("*/verdict.json"))))
roots = {name.partition(".")[0] for name in sys.modules}
print("found", sorted(roots & {"onnx", "onnxruntime", "numpy", "google", "ml_dtypes", "tomllib_evil"}))
daemon.stop()
thread.join()
"""


def test_a_running_daemon_has_no_model_library(tmp_path: Path) -> None:
    made = World(tmp_path)
    made.drop(lambda path: classifier.write_bundle(path), "v1")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(made.state), TEAM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "judged 1" in done.stdout, done.stderr
    assert "found []" in done.stdout, done.stdout
