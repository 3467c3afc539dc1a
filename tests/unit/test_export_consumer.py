"""Somebody else's process reads an export: plain onnxruntime in an interpreter that has no acceptd."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.export_world import SERVABLE, Exported
from tests.release_world import World
from tests.unit.test_export_triton import parsed

pytestmark = pytest.mark.unit

CONSUMER = """
import json, sys
sys.path.append(sys.argv[1])
import numpy, onnxruntime
try:
    import acceptd
except ImportError:
    alone = True
found = {"alone": alone, "path": sys.path, "outputs": []}
for path in sys.argv[2:]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = {"features": numpy.ones((2, 4), numpy.float32)}
    found["outputs"].append(session.run(None, feed)[0].tolist())
    found["inputs"] = [[one.name, one.type, one.shape[1:]] for one in session.get_inputs()]
print(json.dumps(found))
"""


def model_with_external_data() -> dict[str, bytes]:
    """Return a model whose weights lie in a directory of its own."""
    weights = numpy_helper.from_array(np.full((4, 3), 0.5, np.float32), "w")
    data = weights.raw_data
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.extend(
        onnx.StringStringEntryProto(key=key, value=value)
        for key, value in (("location", "weights/w.bin"), ("offset", "0"), ("length", str(len(data))))
    )
    shapes = [helper.make_tensor_value_info("features", 1, ["batch", 4])]
    shapes.append(helper.make_tensor_value_info("probabilities", 1, ["batch", 3]))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["features", "w"], ["probabilities"])], "g", shapes[:1], shapes[1:], [weights]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return {"model.onnx": made.SerializeToString(), "weights/w.bin": data}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_plain_onnxruntime_without_acceptd_runs_both_kinds(world: World, tmp_path: Path) -> None:
    world.released(files=model_with_external_data(), manifest=SERVABLE)
    plain, triton = Exported(world, tmp_path / "plain"), Exported(world, tmp_path / "triton", "triton")
    (place,), (version,) = plain.served(), triton.served()
    site = tmp_path / "site"
    site.mkdir()
    for folder in (Path(onnxruntime.__file__).parent, Path(np.__file__).parent):
        for found in folder.parent.glob(f"{folder.name}*"):  # numpy.libs too
            (site / found.name).symlink_to(found)
    models = [plain.root / place / "../current/model.onnx", triton.root / version / "model.onnx"]
    done = subprocess.run(
        [os.path.realpath(sys.executable), "-I", "-S", "-c", CONSUMER, str(site), *map(str, models)],
        capture_output=True,
        env={"ORT_DISABLE_TELEMETRY": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert found["alone"]
    assert not any("acceptd" in part for part in found["path"] if part != str(site))
    assert found["outputs"] == [[[2.0] * 3] * 2] * 2
    config = parsed((triton.root / version).parent.joinpath("config.pbtxt").read_bytes())
    assert [[one.name, "tensor(float)", list(one.dims)] for one in config.input] == found["inputs"]
