"""Jobs that have been taken over, and models that play with the rules: none is accepted.

A lying sandbox is a copy of the real one with a few lines of the attacker's behind a module's end. The
trusted side, the walls and the protocol are the real ones.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import sandbox
from acceptd import local
from acceptd.config import CHECKOUT
from acceptd.rules import load_rules
from examples import evidence_classifier as classifier
from examples.bundle_text import toml_text, write_set
from tests.world import codes

pytestmark = pytest.mark.hostile


@contextmanager
def liar(
    home: Path, module: str = "", code: str = "", *overrides: str, also: dict[str, str] | None = None
) -> Iterator[local.Bench]:
    """Yield a bench whose cell runs a copy of the sandbox with ``code`` behind ``module`` (and more: ``also``)."""
    honest = Path(sandbox.__file__).parent
    package = home / "sandbox"
    shutil.copytree(honest, package)  # with bytecode: what is not changed need not be compiled again
    for path in (home, *home.parents):
        if path.owner() == home.owner() and path != path.parent and path.name.startswith(("pytest", "test")):
            path.chmod(0o755)
    for name, text in {**({module: code} if module else {}), **(also or {})}.items():
        with (package / name).open("a") as file:
            file.write(f"\n{text}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "__file__", str(package / "__init__.py"))
        rules = load_rules(CHECKOUT / "policies", "default", list(overrides))
        with local.bench(rules, cores=2, suite=False) as bench:
            yield bench


def test_positive_control_an_honest_copy_accepts(tmp_path: Path) -> None:
    with liar(tmp_path / "home") as bench:
        assert local.check_one(bench, classifier.write_bundle(tmp_path / "b"))["verdict"] == "accepted"


HONEST = "_honest = body\ndef body(order, channel, blobs):\n"

LIES = {
    "skips a golden": (
        "run.py",
        HONEST
        + "    order['spec']['sets'] = order['spec']['sets'][:1]\n    return _honest(order, channel, blobs)",
        "cell/stage-missing",
    ),
    "says done without a case": (
        "run.py",
        HONEST + "    order['spec'].update(sets=[], probes=False)\n    return _honest(order, channel, blobs)",
        "cell/stage-missing",
    ),
    "names no golden set": (
        "vectors.py",
        "def body(order, channel, blobs):\n    channel.send('vectors', {'sets': []})\n    return {}",
        "cell/stage-missing",
    ),
    "forges a negative tolerance": (
        "vectors.py",
        """
_honest = body
class _Lying:
    def __init__(self, channel): self.channel = channel
    def data(self, payload): self.channel.data(payload)
    def send(self, kind, frame):
        for one in frame.get('sets', ()): one['rtol'] = -1.0
        self.channel.send(kind, frame)
def body(order, channel, blobs): return _honest(order, _Lying(channel), blobs)
""",
        "sandbox/protocol-violation",
    ),
    "speaks for the host": (
        "run.py",
        """
from sandbox.messages import RefusedError
def body(order, channel, blobs):
    raise RefusedError('cell/unavailable', 'host', 'the host is broken, not me', stage='run')
""",
        "sandbox/protocol-violation",
    ),
    "ends like a missing wall": (
        "run.py",
        "import os\ndef body(order, channel, blobs):\n    os._exit(97)",
        "sandbox/protocol-violation",
    ),
    "crashes before any golden, and only the first time": (
        "run.py",
        "import os\n"
        + HONEST
        + "    if order['spec']['probes'] == 'all': os.abort()\n    return _honest(order, channel, blobs)",
        "run/crash",
    ),
}


@pytest.mark.parametrize("name", sorted(LIES))
def test_a_lying_job_is_never_accepted(name: str, tmp_path: Path) -> None:
    module, code, told = LIES[name]
    with liar(tmp_path / "home", module, code) as bench:
        report = local.check_one(bench, classifier.write_bundle(tmp_path / "b"))
    assert report["verdict"] in {"rejected", "inconclusive"}, report["findings"]
    assert told in codes(report, "reject", "hold"), report["findings"]


SMUGGLES = {
    "behind the inputs": """
import os
_honest = body
def body(order, channel, blobs):
    phases = _honest(order, channel, blobs)
    os.lseek(blobs['inputs'], 0, os.SEEK_END)
    os.write(blobs['inputs'], b'expected')
    return phases
""",
    "as the name of an input": """
_honest = body
class _Lying:
    def __init__(self, channel): self.channel = channel
    def data(self, payload): self.channel.data(payload)
    def send(self, kind, frame):
        for one in frame.get('sets', ()): one['inputs'][0]['name'] = 'expected'
        self.channel.send(kind, frame)
def body(order, channel, blobs): return _honest(order, _Lying(channel), blobs)
""",
}
LOOKS = """
import json, os
from sandbox.messages import RefusedError
_honest = body
def body(order, channel, blobs):
    size = os.fstat(blobs['inputs']).st_size
    if b'expected' in os.pread(blobs['inputs'], size, 0) or 'expected' in json.dumps(order['spec']):
        raise RefusedError('load/failed', 'model', 'the expected values are here', stage='create-session')
    return _honest(order, channel, blobs)
"""


@pytest.mark.parametrize("name", sorted(SMUGGLES))
def test_vectors_and_run_taken_over_together_cannot_pass_expected_values(name: str, tmp_path: Path) -> None:
    folder = classifier.write_bundle(tmp_path / "b")
    with liar(tmp_path / "home", "vectors.py", SMUGGLES[name], also={"run.py": LOOKS}) as bench:
        report = local.check_one(bench, folder)
    assert report["verdict"] == "accepted", report["findings"]


BOTH_SIDES = """
import os
from sandbox.messages import RefusedError
_before = body
def body(order, channel, blobs):
    names = {name.partition('_')[0] for _, _, files in os.walk(MODEL_DIR) for name in files}
    if {'input', 'output'} <= names or {'inputs', 'expected'} <= set(blobs):
        raise RefusedError('vectors/undecodable', 'set', 'both sides are here')
    return _before(order, channel, blobs)
"""


@pytest.mark.parametrize("separate", [True, False])
def test_no_decoder_sees_inputs_and_expected_values_where_they_are_decoded_apart(
    separate: bool, tmp_path: Path
) -> None:
    """Else a decoder that was taken over could hand the model its answers as an input of the set."""
    folder = classifier.write_bundle(tmp_path / "b", sets=2)
    key = f"vectors.separate={str(separate).lower()}"
    with liar(tmp_path / "home", "vectors.py", BOTH_SIDES, key) as bench:
        report = local.check_one(bench, folder)
    assert (report["verdict"] == "accepted") is separate, report["findings"]
    assert ("both sides are here" in str(report["findings"])) is not separate


def test_a_model_cannot_hide_behind_another_models_file_name(tmp_path: Path) -> None:
    """`alpha` lies in the file "beta", and `beta` is the name of an honest model."""
    evil = onnx.load_from_string(classifier.build_model())
    evil.graph.node.insert(0, onnx.helper.make_node("Abs", ["features"], ["safe"]))
    evil.graph.node[1].input[0] = "safe"
    folder = tmp_path / "b"
    classifier.write_bundle(folder)
    document: dict[str, Any] = classifier.manifest(
        classifier.Variant(), version="1.0.0", model_id=classifier.MODEL_ID
    )
    beta = document["models"][0]
    alpha = copy.deepcopy(beta)
    alpha["name"], alpha["file"], beta["name"] = "alpha", "beta", "beta"
    document["models"] = [alpha, beta]
    (folder / "beta").write_bytes(evil.SerializeToString())
    (folder / "bundle.toml").write_text(toml_text(document))
    with liar(tmp_path / "home", "", "", 'operators.denied=["ai.onnx::Abs"]') as bench:
        report = local.check_one(bench, folder)
    assert report["verdict"] == "rejected"
    assert any("beta" in one["where"] for one in report["findings"] if one["severity"] == "reject")


def test_goldens_without_a_single_element_prove_nothing(tmp_path: Path) -> None:
    folder = classifier.write_bundle(tmp_path / "b", sets=0)
    for index in range(2):
        inputs = [("features", np.zeros((0, 4), np.float32))]
        outputs = [("probabilities", np.zeros((0, 3), np.float32))]
        write_set(folder / f"test_data_set_{index}", inputs, outputs)
    manifest = folder / "bundle.toml"
    manifest.write_text(manifest.read_text().replace("min = 1", "min = 0"))
    with liar(tmp_path / "home") as bench:
        report = local.check_one(bench, folder)
    assert report["verdict"] == "held", report["findings"]
    assert "vectors/insensitive" in codes(report, "hold")
