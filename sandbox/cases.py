"""Inferences of one session: feed golden sets and probes, time them, keep outputs, report each as a case."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sandbox.draws import Probe
from sandbox.interface import RuntimeValue, bind_dims
from sandbox.messages import Channel, RefusedError, clip, text_of
from sandbox.session import is_memory_error
from sandbox.tensors import (
    PACKED,
    BlobFullError,
    BlobReader,
    BlobWriter,
    OptionalValue,
    SequenceValue,
    TensorValue,
    Value,
    blob_is_full,
    tensor_of,
    to_array,
)
from sandbox.values import UnexpressibleError, all_finite, from_runtime, needs_ort_values, to_runtime

MAX_PROBLEMS: Final = 64


def problem(code: str, where: str, message: str) -> dict[str, str]:
    """Return a ``Problem`` as JSON data."""
    return {"code": code, "where": clip(where), "message": text_of(message)}


@dataclass(frozen=True, slots=True)
class Ports:
    """The session's sides, and what the manifest declares of them (empty: nothing is declared)."""

    inputs: Sequence[RuntimeValue]
    overridables: Sequence[RuntimeValue]
    outputs: Sequence[RuntimeValue]
    declared_inputs: Sequence[dict[str, Any]]
    declared_outputs: Sequence[dict[str, Any]]
    dims: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Prepared:
    """One golden set as the runtime takes it, to be run again and again; what it gives is dropped."""

    infer: Callable[[], Any]
    batch: int | None
    shapes: dict[str, tuple[int, ...]]


def match(
    values: Sequence[tuple[str, Value]], inputs: Sequence[str], overridables: Sequence[str]
) -> tuple[dict[str, Value], list[dict[str, str]]]:
    """Assign the values of a set to input names; return (feed, problems). Pure.

    As onnx_test_runner has it: a name counts, and a value without one goes by its position over the inputs that
    are not initializers. Where a name is none of the model's, all go by position, and the name is reported.
    """
    names = [name for name, _ in values]
    known = {*inputs, *overridables}
    placed = [name or (inputs[index] if index < len(inputs) else "") for index, name in enumerate(names)]
    if any(names) and all(name in known for name in placed) and len(set(placed)) == len(placed):
        replaced = [name for name in names if name and name not in inputs]
        message = "the set feeds a value over a weight of the model"
        feed = dict(zip(placed, (value for _, value in values), strict=True))
        return feed, [problem("run/overridden-initializer", name, message) for name in replaced]
    ignored = [name for index, name in enumerate(names) if name and name not in inputs[index : index + 1]]
    problems = [
        problem("run/name-ignored", name, "no such input, or names leave it open which: position counts")
        for name in ignored
    ]
    if len(values) > len(inputs):
        message = f"{len(values)} values for {len(inputs)} inputs"
        problems.append(problem("run/unknown-input", f"input {len(inputs)}", message))
    return dict(zip(inputs, (value for _, value in values), strict=False)), problems


class Runner:
    """Runs a session and sends ``case`` frames."""

    def __init__(self, session: Any, ports: Ports, writer: BlobWriter, channel: Channel) -> None:
        self._session = session
        self._ports = ports
        self._writer = writer
        self._channel = channel
        self._as_ort = needs_ort_values(ports.outputs)
        self._output_names = [value.name for value in ports.outputs]
        self._declared = {value["name"]: value for value in ports.declared_outputs}
        self._declared_in = {value["name"]: value for value in ports.declared_inputs}
        self._shapes_in = {
            value.name: self._declared_in.get(value.name, {}).get("shape") or value.shape for value in ports.inputs
        }
        self._ends_without_memory = True
        self.first_golden: dict[str, Value] = {}
        self.first_ms: float | None = None
        """The first inference of the session, in ms."""
        self.warm_ms: dict[str, float] = {}
        """The last repeat of each golden set that ran more than once without an error, in ms."""
        self.runs_of: dict[str, int] = {}
        """How often each set was run without an error."""

    def prepared(self, item: dict[str, Any], reader: BlobReader) -> Prepared:
        """Return a golden set that has run before, ready to be timed. Raises what fetching and feeding raise."""
        values = [(str(named["name"]), reader.fetch(named["value"])) for named in item["inputs"]]
        names = [value.name for value in self._ports.inputs]
        feed, _ = match(values, names, [value.name for value in self._ports.overridables])
        ready = self._ready(feed)
        shapes = {name: tuple(value.shape) for name, value in feed.items() if isinstance(value, TensorValue)}
        return Prepared(lambda: self._infer(ready), self._batch(feed), shapes)

    def golden(self, item: dict[str, Any], reader: BlobReader, repeats: int) -> None:
        """Run one golden set ``repeats`` times. Raises RefusedError for memory and output limits."""
        name = str(item["name"])
        try:
            values = [(str(named["name"]), reader.fetch(named["value"])) for named in item["inputs"]]
        except (ValueError, KeyError, TypeError) as error:
            code = problem("run/unknown-input", name, f"the input blob does not hold the set: {error}")
            self._send(_case(name, 0) | {"error": code["message"], "problems": [code]})
            return
        names = [value.name for value in self._ports.inputs]
        feed, problems = match(values, names, [value.name for value in self._ports.overridables])
        problems += self._unfed(feed)
        if not self.first_golden:
            self.first_golden = feed
        for repeat in range(repeats):
            self._run(name, repeat, feed, problems)

    def probe(self, probe: Probe, repeats: int = 1) -> list[Value] | None:
        """Run one probe ``repeats`` times; return its outputs, None where it failed.

        Outputs are kept only inside the declared domain.
        """
        feed = self._feed(probe.feeds)
        found: list[Value] | None = None
        for repeat in range(repeats):
            found = self._run(probe.name, repeat, feed, [], in_domain=probe.in_domain, is_probe=True)
        return found

    def infer(self, feeds: dict[str, Any]) -> list[Value] | None:
        """Return the outputs for arrays of all inputs without a word about them; None where it failed."""
        try:
            return self.attempt(feeds)
        except Exception:  # noqa: BLE001 - onnxruntime raises a type of its own for each status
            return None

    def attempt(self, feeds: dict[str, Any]) -> list[Value]:
        """Return the outputs for arrays of all inputs. Raises whatever onnxruntime raises."""
        results = self._infer(self._ready(self._feed(feeds)))
        return [from_runtime(got, port.type) for got, port in zip(results, self._ports.outputs, strict=True)]

    def several(self, name: str, calls: Sequence[Sequence[Value]]) -> None:
        """Send one case for several calls: each output is the sequence of theirs."""
        outputs = [SequenceValue(tuple(column)) for column in zip(*calls, strict=True)]
        kept = self._keep(name, outputs, is_probe=True)
        self._send(_case(name, 0) | {"outputs": kept, "finite": all_finite(outputs)})

    def failed(self, name: str, message: str) -> None:
        """Send a case that failed, and why."""
        self._send(_case(name, 0) | {"error": text_of(message)})

    def on(self, session: Any) -> Runner:
        """Return a runner on another session of the same model, which writes to the same blob.

        A refused allocation is then a failed case and does not end the job.
        """
        made = Runner(session, self._ports, self._writer, self._channel)
        made._ends_without_memory = False
        return made

    def release(self) -> None:
        """Give the session up, so that its memory is free for the next one."""
        self._session = None

    def _feed(self, feeds: dict[str, Any]) -> dict[str, Value]:
        types = {value.name: value.type.dtype for value in self._ports.inputs}
        return {name: tensor_of(array, types[name]) for name, array in feeds.items()}

    @property
    def kept_bytes(self) -> int:
        """Bytes of outputs that are kept so far."""
        return self._writer.offset

    def golden_arrays(self) -> dict[str, Any]:
        """Return the tensors of the first golden set as arrays, by input name."""
        return {
            name: _text_array(value) if value.dtype == "string" else to_array(value)
            for name, value in self.first_golden.items()
            if isinstance(value, TensorValue) and value.dtype not in PACKED
        }

    def _unfed(self, feed: dict[str, Value]) -> list[dict[str, str]]:
        return [
            problem("run/unfed-input", value.name, "the set gives no value for a required input")
            for value in self._ports.inputs
            if value.name not in feed and value.type.kind != "optional"
        ]

    def _run(
        self,
        name: str,
        repeat: int,
        feed: dict[str, Value],
        problems: list[dict[str, str]],
        *,
        in_domain: bool = True,
        is_probe: bool = False,
    ) -> list[Value] | None:
        case = _case(name, repeat) | {"in_domain": in_domain, "batch": self._batch(feed)}
        found = list(problems)
        outputs: list[Value] | None = None
        try:
            ready = self._ready(feed)
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                results = self._infer(ready)
            finally:
                case["cpu_ms"] = (time.process_time() - cpu) * 1000
                case["wall_ms"] = (time.perf_counter() - wall) * 1000
            outputs = [
                from_runtime(got, port.type) for got, port in zip(results, self._ports.outputs, strict=True)
            ]
        except UnexpressibleError as error:
            found.append(problem("run/unexpressible-type", name, str(error)))
            case["error"] = text_of(str(error))
        except Exception as error:  # onnxruntime raises a type of its own for each status
            if in_domain and self._ends_without_memory and is_memory_error(error):
                message = f"memory was refused: {text_of(str(error))}"
                raise RefusedError("resources/memory-limit", name, message, stage="case") from error
            case["error"] = text_of(f"{type(error).__name__}: {error}")
        else:
            self._note_time(name, repeat, case["wall_ms"])
            case["finite"] = all_finite(outputs)
            found += self._check(feed, outputs, in_domain=in_domain)
            if in_domain:
                case["outputs"] = self._keep(name, outputs, is_probe=is_probe)
        self._send(case | {"problems": found[:MAX_PROBLEMS]})
        return outputs

    def _note_time(self, name: str, repeat: int, wall_ms: float) -> None:
        self.runs_of[name] = self.runs_of.get(name, 0) + 1
        if self.first_ms is None:
            self.first_ms = wall_ms
        if repeat:
            self.warm_ms[name] = wall_ms

    def _ready(self, feed: dict[str, Value]) -> dict[str, Any]:
        ready = {name: to_runtime(value, as_ort=self._as_ort) for name, value in feed.items()}
        if self._as_ort and any(value is None for value in ready.values()):
            raise UnexpressibleError("an absent optional beside a bfloat16, float8 or sub-byte output")
        return ready

    def _infer(self, ready: dict[str, Any]) -> Any:
        if self._as_ort:
            return self._session.run_with_ort_values(self._output_names, ready)
        return self._session.run(self._output_names, ready)

    def _keep(self, name: str, outputs: Sequence[Value], *, is_probe: bool) -> list[dict[str, Any]]:
        kept = []
        try:
            for output, value in zip(self._output_names, outputs, strict=True):
                kept.append({"name": output, "value": self._writer.store(value)})
        except BlobFullError as error:
            if is_probe:
                return []  # the goldens are safe in the blob; a probe's outputs only help to compare
            raise blob_is_full(name, error) from error
        return kept

    def _batch(self, feed: dict[str, Value]) -> int | None:
        """Size of the leading dimension of the first tensor input that leaves it open."""
        for port in self._ports.inputs:
            shape, value = self._shapes_in[port.name], feed.get(port.name)
            if shape and isinstance(shape[0], str) and isinstance(value, TensorValue) and value.shape:
                return value.shape[0]
        return None

    def _check(self, feed: dict[str, Value], outputs: Sequence[Value], *, in_domain: bool) -> list[dict[str, str]]:
        """Hold each output's dtype and shape against what is declared, else against the runtime's word."""
        bound: dict[str, int] = {}
        dims = self._ports.dims if in_domain else None
        if self._declared:
            for name, value in feed.items():
                shape = self._declared_in.get(name, {}).get("shape")
                if isinstance(value, TensorValue) and shape is not None:
                    bind_dims(shape, value.shape, bound, None)
        problems = []
        for port, value in zip(self._ports.outputs, outputs, strict=True):
            declared = self._declared.get(port.name)
            inner = value.value if isinstance(value, OptionalValue) else value
            if port.type.kind not in {"tensor", "optional"} or not isinstance(inner, TensorValue):
                continue
            dtype = declared["dtype"] if declared else port.type.dtype
            if inner.dtype != dtype:
                problems.append(
                    problem("run/output-dtype", port.name, f"the run gave {inner.dtype}, declared is {dtype}")
                )
            shape = declared.get("shape") if declared else _only_numbers(port.shape)
            wrong = bind_dims(shape, inner.shape, bound, dims)
            if wrong:
                problems.append(problem("run/output-shape", port.name, wrong))
        return problems

    def _send(self, case: dict[str, Any]) -> None:
        self._channel.send("case", case)


def _case(name: str, repeat: int) -> dict[str, Any]:
    return {"set": clip(name), "repeat": repeat}


def _only_numbers(shape: Sequence[int | str] | None) -> list[int | str] | None:
    """Names of an undeclared model bind nothing: exporters use one name for several sizes."""
    return None if shape is None else [dim if isinstance(dim, int) else "?" for dim in shape]


def _text_array(value: TensorValue) -> Any:
    return to_runtime(value, as_ort=False)
