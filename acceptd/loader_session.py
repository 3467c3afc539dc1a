"""The loader's session: onnxruntime on verified bytes, with checked inputs and checked outputs.

The only module of acceptd that imports onnxruntime, and beside the comparer the only one that imports
numpy: lazily, in the production process. A refused input never becomes a tensor; a refused output is
never handed on.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from acceptd import loader_pins
from acceptd.errors import (
    InvalidInputError,
    InvalidOutputError,
    LoaderError,
    ProviderUnavailableError,
    RuntimeRefusedError,
)
from acceptd.loader_optimised import Artifact, OptimisedCache, Shelf, uncached
from acceptd.loader_options import Options, register
from acceptd.release.interface import (
    SUPPORTED,
    Bound,
    Interface,
    Spec,
    check_literal,
    check_names,
    check_shape,
    interface,
)
from acceptd.release.opened import Verified
from acceptd.release.receipt import Receipt, make_receipt, tensor_digest
from acceptd.runtime import cpu

_RUNTIME_NAMES: Final = {"float32": "float", "float64": "double"}


class Session:
    """One model of an opened release, ready to run. Safe for use by several threads at once.

    ``requested_provider`` is the accepted provider, ``selected_provider`` the one that runs, and
    ``used_cpu_fallback`` says whether the accepted fallback to the CPU was taken.
    """

    def __init__(
        self,
        release: Verified,
        model: str | None = None,
        custom_operators: Sequence[str | os.PathLike[str]] = (),
        optimised_cache: OptimisedCache | None = None,
    ) -> None:
        table = release.model(model)
        self.release = release
        self.model = str(table.get("name"))
        self.interface: Interface = interface(release.manifest, table)
        for spec in (*self.interface.inputs, *self.interface.outputs):
            if spec.type == "tensor" and spec.dtype not in SUPPORTED:
                raise RuntimeRefusedError(
                    f"{spec.name!r}: {spec.dtype} cannot be passed through onnxruntime's Python API"
                )
        for spec in self.interface.inputs:
            if spec.type != "tensor":
                raise RuntimeRefusedError(
                    f"{spec.name!r}: an input of type {spec.type} is not supported by this loader"
                )
        options = Options(release.options)
        operators = loader_pins.operator_paths(options, custom_operators)
        runtime = _import_runtime()
        loader_pins.check(options, runtime)
        self.requested_provider = options.providers[0]
        self.selected_provider, providers = options.choose(runtime)
        self.used_cpu_fallback = self.selected_provider != self.requested_provider
        self._options = options
        path = release.file(str(table.get("file")))

        def made(source: str | bytes, **changes: Any) -> Any:
            built = options.build(runtime, self.selected_provider, optimised=isinstance(source, bytes))
            register(built, operators)
            for name, value in changes.items():
                setattr(built, name, value)
            return runtime.InferenceSession(source, sess_options=built, providers=providers)

        self.artifact: Artifact | None = None
        try:
            reason = "" if optimised_cache is None else uncached(options, self.selected_provider)
            if optimised_cache is None or reason:
                self._session = made(str(path))
                self.artifact = Artifact("none", {}, reason=reason) if reason else None
            else:
                self._session, self.artifact = Shelf(optimised_cache).session(
                    self._optimised_as(str(table.get("file")), runtime, providers),
                    made,
                    lambda target: made(str(path), optimized_model_filepath=target),
                )
        except LoaderError:
            raise
        except Exception as error:  # onnxruntime's own exceptions share no public base
            raise RuntimeRefusedError(f"onnxruntime cannot load {path.name}: {str(error)[:300]}") from error
        if self._session.get_providers()[0] != self.selected_provider:
            raise ProviderUnavailableError(
                f"{self.selected_provider} was requested, onnxruntime took {self._session.get_providers()[0]}"
            )
        loader_pins.check_operators(options, operators)
        loader_pins.check(options, runtime)  # providers load their libraries with the first session
        self._discover()
        release.recheck()

    def _optimised_as(self, file: str, runtime: Any, providers: Sequence[Any]) -> dict[str, Any]:
        """Return the identity that an optimised artifact of this model must have to be run here."""
        sources = {one.path: one.sha256 for one in self.release.files}
        configuration = {"options": self._options.document(), "providers": list(providers)}
        facts = self._facts(runtime)
        return {
            "schema": 1,
            "source": {"bundle_digest": self.release.bundle_digest, "file": file, "sha256": sources[file]},
            "optimiser": {"name": "onnxruntime", "version": facts["onnxruntime"], "build": facts["build"]},
            "configuration": _sha256(configuration),
            "hardware_class": facts["cpu_class"],
            "runtime_identity": _sha256(facts | configuration),
        }

    @staticmethod
    def _facts(runtime: Any) -> dict[str, Any]:
        """Return what of this process counts for how a session computes, beside its options."""
        return {
            "python": platform.python_version(),
            "implementation": platform.python_implementation(),
            "machine": platform.machine(),
            "onnxruntime": runtime.__version__,
            "build": str(runtime.get_build_info())[:2000],
            "libraries": loader_pins.own_libraries(runtime),
            "cpu_class": cpu.host(),
            "numpy": _numpy().__version__,
        }

    def _discover(self) -> None:
        """Refuse where the runtime's own schema is not the accepted interface, names and types in order."""
        for what, specs, found in (
            ("inputs", self.interface.inputs, self._session.get_inputs()),
            ("outputs", self.interface.outputs, self._session.get_outputs()),
        ):
            if [spec.name for spec in specs] != [value.name for value in found]:
                raise RuntimeRefusedError(f"the runtime's {what} are not the accepted ones")
            for spec, value in zip(specs, found, strict=True):
                wanted = f"tensor({_RUNTIME_NAMES.get(spec.dtype, spec.dtype)})"
                if spec.type == "tensor" and value.type != wanted:
                    raise RuntimeRefusedError(f"{spec.name!r} is {value.type} in the runtime, not {wanted}")
                if spec.type == "tensor" and not _agrees(spec, list(value.shape or ())):
                    raise RuntimeRefusedError(f"{spec.name!r} has the shape {value.shape} in the runtime")

    def run(self, inputs: Mapping[str, Any]) -> Outputs:
        """Run once. ``inputs`` maps each declared name to nested lists, a scalar or an array of its dtype.

        Raises InvalidInputError before a tensor exists (names, dtype, rank, bounds, range, finiteness),
        InvalidOutputError for an output that breaks the interface, RuntimeRefusedError where the run fails.
        """
        bound: Bound = {}
        feed = self._checked(inputs, bound)
        try:
            values = self._session.run([spec.name for spec in self.interface.outputs], feed)
        except Exception as error:  # as above
            raise RuntimeRefusedError(f"onnxruntime failed: {str(error)[:300]}") from error
        outputs = {spec.name: value for spec, value in zip(self.interface.outputs, values, strict=True)}
        for spec in self.interface.outputs:
            check_output(spec, outputs[spec.name], self.interface.dims, bound)
        return Outputs(self, feed, outputs)

    def _checked(self, inputs: Mapping[str, Any], bound: Bound) -> dict[str, Any]:
        """Return arrays of our own, made only after *all* inputs passed."""
        if not isinstance(inputs, Mapping):
            raise InvalidInputError("inputs are a mapping of names to values")
        check_names(self.interface.inputs, inputs)
        given = [(spec, inputs[spec.name]) for spec in self.interface.inputs if spec.name in inputs]
        ready = [(spec, _judged(spec, value, self.interface.dims, bound)) for spec, value in given]
        return {spec.name: _tensor(spec, value) for spec, value in ready}

    @functools.cached_property
    def runtime(self) -> dict[str, Any]:
        """What runs here, as plain JSON data: versions, native libraries, providers, options, threads."""
        cached = self.artifact is not None and self.artifact.status == "cached"
        return {
            **self._facts(_import_runtime()),
            # An optimised artifact is another model than its source: what runs is named as what it is.
            **({"artifact": self.artifact.digest} if self.artifact is not None and cached else {}),
            "requested_provider": self.requested_provider,
            "selected_provider": self.selected_provider,
            "used_cpu_fallback": self.used_cpu_fallback,
            "providers": list(self._session.get_providers()),
            "options": self._options.document(),
        }

    @functools.cached_property
    def runtime_identity(self) -> str:
        """SHA-256 of the runtime record; two inferences of one session share it."""
        return _sha256(self.runtime)


def _sha256(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class Outputs(Mapping[str, Any]):
    """The checked outputs of one run, by name: numpy arrays (sequences and maps as onnxruntime gives them)."""

    def __init__(self, session: Session, feed: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self._session, self._feed, self._values = session, feed, values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def labels(self, output: str | None = None) -> list[str]:
        """Return one label per row of an output with declared labels; on a tie the lowest index wins."""
        named = [s for s in self._session.interface.outputs if s.labels and output in {None, s.name}]
        if len(named) != 1:
            if output is None and named:
                several = ", ".join(one.name for one in named)
                raise InvalidInputError(f"several outputs have labels: say which, labels(output) of {several}")
            raise InvalidInputError(f"{output or 'the release'} has no output with labels")
        array = self._values[named[0].name]
        rows = array.reshape(-1, array.shape[-1]).argmax(axis=1)  # numpy.argmax: the first occurrence
        return [named[0].labels[int(row)] for row in rows]

    def receipt(self, request_id: str | None = None) -> Receipt:
        """Return the receipt of this run: digests only, never a value."""
        return make_receipt(
            self._session.release,
            model=self._session.model,
            runtime_identity=self._session.runtime_identity,
            inputs={name: _digest(array) for name, array in self._feed.items()},
            outputs={name: _digest(value) for name, value in self._values.items()},
            request_id=request_id,
        )


def _agrees(spec: Spec, found: list[Any]) -> bool:
    """Say whether every number in the runtime's shape is the declared one; ``?`` promises nothing."""
    if spec.shape is None or not found:  # an unknown rank reads as an empty shape
        return True
    pairs = zip(spec.shape, found, strict=False)
    return len(found) == len(spec.shape) and all(
        declared == "?" or declared == size for declared, size in pairs if isinstance(size, int)
    )


def _import_runtime() -> Any:
    """Import onnxruntime without its telemetry; refuse an environment that lets a model configure its session."""
    if os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL", "0") not in {"", "0"}:
        raise RuntimeRefusedError(
            "ORT_LOAD_CONFIG_FROM_MODEL is set: a model could choose its own session options"
        )
    if "onnxruntime" not in sys.modules:
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # on by default in the Linux wheel; read at import
    try:
        import onnxruntime
    except ImportError as error:
        raise RuntimeRefusedError(f"onnxruntime cannot be imported: {error}") from error
    return onnxruntime


def _numpy() -> Any:
    import numpy

    return numpy


def _judged(spec: Spec, value: object, dims: Mapping[str, tuple[int, int]], bound: Bound) -> object:
    """Return the value after every check that needs no tensor; arrays come back as a copy of their own."""
    numpy = _numpy()
    if isinstance(value, list | tuple | str | int | float):
        check_literal(spec, value, dims, bound)
        return value
    if not isinstance(value, numpy.ndarray | numpy.generic) and not hasattr(value, "__array__"):
        raise InvalidInputError(f"{spec.name!r}: {type(value).__name__} is neither lists nor an array")
    array = numpy.asarray(value)
    found = "string" if array.dtype.kind in "UO" and spec.dtype == "string" else array.dtype.name
    if found != spec.dtype or not (array.dtype.isnative or spec.dtype == "string"):
        raise InvalidInputError(f"{spec.name!r} is {array.dtype}, not {spec.dtype}")
    check_shape(spec, array.shape, dims, bound, InvalidInputError)
    array = numpy.array(array, order="C", copy=True)  # what is checked is what runs
    if spec.dtype == "string":
        if not all(isinstance(item, str) for item in array.ravel().tolist()):
            raise InvalidInputError(f"{spec.name!r} holds an element that is no text")
    elif array.dtype.kind == "f" and not numpy.isfinite(array).all():
        raise InvalidInputError(f"{spec.name!r} holds NaN or infinity")
    if spec.range is not None and array.dtype.kind in "fiu" and array.size:
        # Bounds are compared in the array's own precision: float32(0.1) keeps the bound 0.1.
        low, high = (array.dtype.type(end) if array.dtype.kind == "f" else end for end in spec.range)
        if array.min() < low or array.max() > high:
            raise InvalidInputError(f"{spec.name!r} holds an element outside {spec.range[0]} to {spec.range[1]}")
    return array


def _tensor(spec: Spec, value: object) -> Any:
    """Make the array that onnxruntime is fed. Only reached once every input of the call passed."""
    numpy = _numpy()
    return numpy.array(value, dtype=object if spec.dtype == "string" else spec.dtype, order="C", ndmin=0)


def check_output(spec: Spec, value: Any, dims: Mapping[str, tuple[int, int]], bound: Bound) -> None:
    """Raise InvalidOutputError where one output breaks the accepted interface.

    Every floating output is finite. ``kind = "probabilities"``: each element in [0, 1] exactly, each row
    (last axis, of two or more) within ``sum_error`` of 1, beside the rounding that its dtype cannot avoid.
    """
    numpy = _numpy()
    if spec.type != "tensor":
        _check_nested(spec, value)
        return
    if not isinstance(value, numpy.ndarray):
        raise InvalidOutputError(f"{spec.name!r} is no tensor")
    found = "string" if value.dtype.kind in "UO" else value.dtype.name
    if found != spec.dtype:
        raise InvalidOutputError(f"{spec.name!r} is {found}, not {spec.dtype}")
    check_shape(spec, value.shape, dims, bound, InvalidOutputError)
    if spec.labels and (value.ndim == 0 or value.shape[-1] != len(spec.labels)):
        raise InvalidOutputError(f"{spec.name!r} has not one value for each of {len(spec.labels)} labels")
    if value.dtype.kind != "f":
        return
    if not numpy.isfinite(value).all():
        raise InvalidOutputError(f"{spec.name!r} holds NaN or infinity")
    if spec.kind == "probabilities" and value.size:
        if value.min() < 0 or value.max() > 1:
            raise InvalidOutputError(f"{spec.name!r} holds a probability outside 0 to 1")
        if value.ndim and value.shape[-1] > 1:
            _check_sums(spec, value)


def _check_sums(spec: Spec, value: Any) -> None:
    numpy = _numpy()
    rows = value.reshape(-1, value.shape[-1])
    sums = rows.sum(axis=1, dtype=numpy.float64)
    unit = Fraction(float(numpy.finfo(value.dtype).eps)) / 2
    # Rounding each element to its dtype moves a row's sum by at most unit x sum; only close calls are exact.
    tolerance = Fraction(repr(spec.sum_error))  # the decimal that was declared, exactly
    for row in numpy.flatnonzero(numpy.abs(sums - 1.0) > 0.9999 * spec.sum_error):
        exact = sum(map(Fraction, rows[row].tolist()), Fraction())
        if abs(exact - 1) > tolerance + unit * exact:
            raise InvalidOutputError(
                f"row {int(row)} of {spec.name!r} sums to {float(exact):.9g}, not 1 within {spec.sum_error:g}"
            )


def _check_nested(spec: Spec, value: Any) -> None:
    """Walk sequences and maps as onnxruntime gives them: lists, dictionaries, arrays, scalars."""
    numpy = _numpy()
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list | tuple):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, float | numpy.ndarray | numpy.generic):
            array = numpy.asarray(item)
            if array.dtype.kind == "f" and not numpy.isfinite(array).all():
                raise InvalidOutputError(f"{spec.name!r} holds NaN or infinity")


def _digest(value: Any) -> str:
    numpy = _numpy()
    if isinstance(value, numpy.ndarray):
        if value.dtype.kind in "UO":
            return tensor_digest("string", value.shape, [str(item).encode() for item in value.ravel().tolist()])
        return tensor_digest(value.dtype.name, value.shape, value.tobytes())
    return tensor_digest("nested", (), [repr(value).encode()])
