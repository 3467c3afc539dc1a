"""What the loader refuses before and around a session: options, interfaces, values and runtimes of no use."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from acceptd import loader_pins, loader_session
from acceptd.errors import (
    InvalidInputError,
    InvalidOutputError,
    LoaderError,
    MalformedError,
    ProviderUnavailableError,
    RuntimeDifferenceWarning,
    RuntimeMismatchError,
    RuntimeRefusedError,
    UsageError,
)
from acceptd.loader_inputs import plain, read_inputs
from acceptd.loader_options import CPU, Options, register
from acceptd.loader_runtime import agree, discover
from acceptd.loader_session import Outputs
from acceptd.loader_values import check_output, judged
from acceptd.release.interface import Interface, Spec
from acceptd.release.model import SessionOptions
from acceptd.runtime import cpu
from acceptd.runtime.pins import LIBRARY, Difference
from examples.evidence_classifier import build_model, manifest
from tests.release_world import World

pytestmark = pytest.mark.unit
CUDA = "CUDAExecutionProvider"
GOOD = {"features": [[0.9, 0.8, 0.75, 0.1]]}


def document(**changes: Any) -> dict[str, Any]:
    return SessionOptions().model_dump(mode="json") | changes


# -- the session options of a release

OPERATORS = {"name": "x.so", "sha256": "ab" * 32, "abi": 20, "domain": "d"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"providers": None}, "not usable"),
        ({"providers": []}, "no provider or no thread"),
        ({"intra_op_threads": "x"}, "not usable"),
        ({"intra_op_threads": 0}, "no provider or no thread"),
        ({"inter_op_threads": -1}, "no provider or no thread"),
        ({"optimisation": "wild"}, "not usable"),
        ({"optimisation": []}, "not usable"),
        ({"session_entries": [1]}, "not usable"),
        ({"provider_options": {CPU: 1}}, "not usable"),
        ({"provider_options": 1}, "not usable"),
        ({"libraries": {"x.so": "ab"}}, "pin a library without a digest"),
        ({"libraries": {"x.so": "AB" * 32}}, "pin a library without a digest"),
        ({"libraries": "x"}, "not usable"),
        ({"custom_operators": [OPERATORS | {"sha256": "none"}]}, "pin a library without a digest"),
        ({"custom_operators": [OPERATORS | {"abi": None}]}, "not usable"),
        ({"custom_operators": [{}]}, "not usable"),
    ],
    ids=str,
)
def test_odd_session_options_are_refused_and_not_guessed(changes: dict[str, Any], said: str) -> None:
    assert Options(document()).providers == [CPU]
    with pytest.raises(MalformedError, match=said):
        Options(document(**changes))
    with pytest.raises(MalformedError, match="not usable"):
        Options({key: value for key, value in document().items() if key != "allow_cpu_fallback"})


def runtime(*available: str) -> Any:
    return SimpleNamespace(get_available_providers=lambda: list(available))


@pytest.mark.parametrize(
    ("providers", "fallback", "available", "requested", "listed"),
    [
        ([CUDA], True, [CUDA, CPU], CUDA, [CUDA, CPU]),
        ([CUDA], False, [CUDA, CPU], CUDA, [CUDA]),
        ([CUDA], True, [CPU], CPU, [CPU]),
        ([CUDA, CPU], True, [CPU, CUDA], CUDA, [CUDA, CPU]),
        ([CPU], False, [CUDA, CPU], CPU, [CPU]),
    ],
)
def test_only_accepted_providers_are_asked_for(
    providers: list[str], fallback: bool, available: list[str], requested: str, listed: list[str]
) -> None:
    options = Options(document(providers=providers, allow_cpu_fallback=fallback))
    selected, found = options.choose(runtime(*available))
    assert selected == requested
    assert [one if isinstance(one, str) else one[0] for one in found] == listed


def test_a_provider_that_is_away_is_no_reason_to_take_another() -> None:
    for fallback, available in ((False, [CPU]), (True, ["TensorrtExecutionProvider"])):
        with pytest.raises(ProviderUnavailableError, match=f"{CUDA} is not available"):
            Options(document(providers=[CUDA], allow_cpu_fallback=fallback)).choose(runtime(*available))


def test_custom_operators_that_do_not_load_are_named() -> None:
    def refuse(_path: str) -> None:
        raise RuntimeError("no symbol RegisterCustomOps")

    with pytest.raises(RuntimeRefusedError, match=r"custom operators x\.so: no symbol RegisterCustomOps"):
        register(SimpleNamespace(register_custom_ops_library=refuse), {"x.so": "/lib/x.so"})


# -- the interface


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("options"))
    made.released(files={"model.onnx": build_model()}, manifest=manifest())
    yield made
    made.close()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"inputs": {"dtype": "bfloat16"}}, "bfloat16 cannot be passed through onnxruntime's Python API"),
        ({"outputs": {"dtype": "float8e4m3fn"}}, "float8e4m3fn cannot be passed through"),
        ({"inputs": {"type": "sequence"}}, "an input of type sequence is not supported by this loader"),
    ],
    ids=str,
)
def test_an_interface_that_no_session_can_keep_is_refused(
    tmp_path: Path, changes: dict[str, dict[str, str]], said: str
) -> None:
    made, declared = World(tmp_path), manifest()
    for what, more in changes.items():
        declared["models"][0][what][0] |= more
    made.released(files={"model.onnx": build_model()}, manifest=declared)
    with pytest.raises(RuntimeRefusedError, match=said):
        made.open().session()
    made.close()


def value(name: str, type_: str, shape: Any) -> Any:
    return SimpleNamespace(name=name, type=type_, shape=shape)


SPEC = Spec("x", "float32", "tensor", ("batch", 3))


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ([value("y", "tensor(float)", [1, 3])], "the runtime's inputs are not the accepted ones"),
        ([], "the runtime's inputs are not the accepted ones"),
        ([value("x", "tensor(double)", [1, 3])], r"'x' is tensor\(double\) in the runtime, not tensor\(float\)"),
        ([value("x", "tensor(float)", ["n", 4])], r"'x' has the shape \['n', 4\] in the runtime"),
        ([value("x", "tensor(float)", [1, 3, 1])], "has the shape"),
        ([value("x", "tensor(float)", [2, 3])], "has the shape"),
    ],
    ids=str,
)
def test_a_runtime_that_sees_another_interface_is_refused(inputs: list[Any], said: str) -> None:
    def session(found: list[Any]) -> Any:
        return SimpleNamespace(get_inputs=lambda: found, get_outputs=list)

    accepted = Interface((SPEC,), (), {"batch": (1, 2)})
    discover(accepted, session([value("x", "tensor(float)", ["n", 3])]))
    discover(accepted, session([value("x", "tensor(float)", None)]))  # an unknown rank
    with pytest.raises(RuntimeRefusedError, match=said):
        discover(accepted, session(inputs))


# -- what goes in, what comes out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.array([["a", 1]], object), "holds an element that is no text"),
        (np.array([["a", None]], object), "holds an element that is no text"),
        (np.array([[b"a", b"b"]]), r"is \|S1, not string"),
    ],
    ids=str,
)
def test_text_is_text_to_its_last_element(given: Any, said: str) -> None:
    spec = Spec("words", "string", "tensor", (1, 2))
    assert judged(spec, np.array([["a", "b"]]), {}, {}).tolist() == [["a", "b"]]  # type: ignore[attr-defined]
    with pytest.raises(InvalidInputError, match=said):
        judged(spec, given, {}, {})


def test_what_is_nested_in_an_output_is_looked_through() -> None:
    spec = Spec("found", "float32", "sequence", None)
    check_output(spec, [{"a": 1.0, 3: "text"}, np.float32(2.0), ("b", 1)], {}, {})
    with pytest.raises(InvalidOutputError, match="'found' holds NaN or infinity"):
        check_output(spec, [{"a": "text"}, ({"b": [np.array([np.inf])]},)], {}, {})


def labelled(*names: str) -> Outputs:
    specs = tuple(Spec(name, "float32", "tensor", None, labels=("a", "b")) for name in names)
    session: Any = SimpleNamespace(interface=Interface((), specs, {}))
    return Outputs(session, {}, {name: np.array([[0.2, 0.8]], np.float32) for name in names})


def test_labels_of_several_outputs_are_given_for_the_one_that_is_named() -> None:
    found = labelled("first", "second")
    assert (len(found), list(found), found.labels("second")) == (2, ["first", "second"], ["b"])
    with pytest.raises(InvalidInputError, match=r"say which, labels\(output\) of first, second"):
        found.labels()
    with pytest.raises(InvalidInputError, match="third has no output with labels"):
        found.labels("third")
    with pytest.raises(InvalidInputError, match="the release has no output with labels"):
        labelled().labels()


# -- the runtime itself


def test_a_runtime_that_fails_or_takes_another_provider_ends_in_one_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = world.open().session()

    class Failing:
        def run(self, *_: Any) -> Any:
            raise RuntimeError("x" * 5000)

    monkeypatch.setattr(session, "_session", Failing())
    with pytest.raises(RuntimeRefusedError, match="onnxruntime failed: x") as caught:
        session.run(GOOD)
    assert len(str(caught.value)) < 400
    import onnxruntime

    monkeypatch.setattr(onnxruntime.InferenceSession, "get_providers", lambda _self: [CUDA])
    with pytest.raises(ProviderUnavailableError, match=f"{CPU} was requested, onnxruntime took {CUDA}"):
        world.open().session()


def test_a_process_without_onnxruntime_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(RuntimeRefusedError, match="onnxruntime cannot be imported"):
        loader_session._import_runtime()


def test_a_word_about_the_runtime_that_there_is_not(world: World) -> None:
    with pytest.raises((UsageError, LoaderError), match="say one of refuse, warn, ignore"):
        world.open().session(runtime="maybe")  # type: ignore[arg-type]


HERE: dict[str, Any] = {"onnxruntime": "1.24.4", "cpu_class": cpu.host(), "libraries": []}
RUNTIME = SimpleNamespace(__version__="1.24.4")


@pytest.mark.parametrize(
    ("accepted", "pinned", "said", "found"),
    [
        (HERE, "", None, 0),
        (HERE | {"onnxruntime": "1.0.0"}, "", "ignore", 0),
        (HERE | {"onnxruntime": "1.0.0"}, "", None, 1),
        (HERE | {"onnxruntime": "1.0.0", "cpu_class": "z80"}, "", None, 2),
        (HERE | {"cpu_class": None}, "", "warn", 1),
        (None, "", "warn", 1),
        (None, "", None, 0),
        (None, "1.24.4", None, 0),
    ],
    ids=str,
)
def test_another_runtime_than_the_accepted_one_is_told(
    accepted: dict[str, Any] | None, pinned: str, said: Any, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader_pins, "unlike", lambda _libraries, _runtime: ())
    options = Options(document(onnxruntime=pinned))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told = agree(accepted, options, said, RUNTIME)
    assert len(told) == found
    assert [one.category for one in caught] == [RuntimeDifferenceWarning] * bool(found)


@pytest.mark.parametrize(
    ("accepted", "pinned", "said", "words"),
    [
        (HERE | {"onnxruntime": "1.0.0"}, "", "refuse", "onnxruntime is 1.24.4, accepted was 1.0.0"),
        (HERE | {"onnxruntime": "1.0.0", "cpu_class": "z80"}, "1.24.4", None, "accepted was 1.0.0 (and 1 more)"),
        (HERE | {"cpu_class": "z80"}, "1.24.4", None, "the processor's class is"),
        (HERE, "", "refuse", "libx.so has the SHA-256"),
        (None, "", "refuse", "the release does not say on which runtime it was accepted"),
    ],
    ids=str,
)
def test_a_runtime_that_is_to_be_the_accepted_one_is_refused_where_it_is_not(
    accepted: dict[str, Any] | None, pinned: str, said: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Difference(LIBRARY, "libx.so", "other-digest", "cd" * 32, "ab" * 32)
    monkeypatch.setattr(loader_pins, "unlike", lambda _libraries, _runtime: (other,) if accepted is HERE else ())
    with pytest.raises(RuntimeMismatchError) as caught:
        agree(accepted, Options(document(onnxruntime=pinned)), said, RUNTIME)
    assert words in str(caught.value)


# -- an operator's own values


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("x.json", b"[1]", "no object of names and values"),
        ("x.json", b'{"a": NaN}', "NaN"),
        ("x.npz", b"PK", "npz"),
        ("x.npz", b"", "npz"),
    ],
)
def test_a_file_without_names_and_values_is_refused_with_both_forms(
    tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError, match=said) as caught:
        read_inputs(tmp_path / name)
    assert str(tmp_path / name) in caught.value.message
    assert caught.value.remedy == 'give an .npz file, or JSON as {"name": [[1.0, 2.0]]}'


def test_a_single_array_is_no_archive_of_named_ones(tmp_path: Path) -> None:
    with (tmp_path / "x.npz").open("wb") as file:
        np.save(file, np.zeros(2))
    with pytest.raises(UsageError, match=r"no \.npz archive"):
        read_inputs(tmp_path / "x.npz")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(UsageError, match="larger than 1073741824 bytes") as caught:
        read_inputs(tmp_path / "x.json")
    assert caught.value.remedy == "run it in parts"


def test_nested_outputs_are_printed_as_they_are_nested() -> None:
    given = [{1: np.array([1.5]), "b": (np.float32(2.0), "text")}]
    assert plain(given) == [{"1": [1.5], "b": [2.0, "text"]}]
