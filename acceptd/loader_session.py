"""The loader's session: onnxruntime on verified bytes, with checked inputs and checked outputs.

The only module of acceptd that imports onnxruntime: lazily, in the production process. A refused input
never becomes a tensor; a refused output is never handed on.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from acceptd.errors import InvalidInputError, LoaderError, ProviderUnavailableError, RuntimeRefusedError
from acceptd.loader_options import Options, register
from acceptd.loader_package import check
from acceptd.loader_runtime import Told, agree, discover, process_facts, sha256_of
from acceptd.loader_values import check_output, judged, tensor
from acceptd.release.interface import SUPPORTED, Bound, Interface, Spec, check_names, interface
from acceptd.release.opened import Verified

if TYPE_CHECKING:
    from acceptd.loader_optimised import Artifact, OptimisedCache
    from acceptd.release.receipt import Receipt

_NOTHING = "\n"
"""A name that no file has."""


class Session:
    """One model of an opened release, ready to run. Safe for use by several threads at once.

    ``requested_provider`` is the accepted provider, ``selected_provider`` the one that runs, and
    ``used_cpu_fallback`` says whether the accepted fallback to the CPU was taken. ``runtime_differences`` says
    in words how this process differs from what the release was accepted on, as far as it was looked at.
    """

    def __init__(
        self,
        release: Verified,
        model: str | None = None,
        custom_operators: Sequence[str | os.PathLike[str]] = (),
        optimised_cache: OptimisedCache | None = None,
        runtime_told: Told | None = None,
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
        operators: Mapping[str, str] = {}
        if options.operators or custom_operators:
            from acceptd import loader_pins

            operators = loader_pins.operator_paths(options, custom_operators)
        runtime = _import_runtime()
        check(options, runtime)
        self.requested_provider = options.providers[0]
        self.selected_provider, providers = options.choose(runtime)
        self.used_cpu_fallback = self.selected_provider != self.requested_provider
        self._options = options
        file = str(table.get("file"))
        place = release.place(file)
        in_memory = release.mode == "memory"
        # Loaded by path, external data is found beside the model; from bytes, in the table that is given.
        source: str | bytes = bytes(release.contents[file]) if in_memory else place

        def made(source: str | bytes, *, cached: bool = False, **changes: Any) -> Any:
            in_bytes = isinstance(source, bytes)
            built = options.build(runtime, self.selected_provider, optimised=cached, from_memory=in_bytes)
            register(built, operators)
            for name, value in changes.items():
                setattr(built, name, value)
            beside = _beside(release, file) if in_memory and not cached else {}
            if beside:
                lengths = [len(content) for content in beside.values()]
                built.add_external_initializers_from_files_in_memory(list(beside), list(beside.values()), lengths)
            session = runtime.InferenceSession(source, sess_options=built, providers=providers)
            session.acceptd_borrowed = beside  # it computes from these bytes for as long as it lives
            return session

        self.artifact: Artifact | None = None
        try:
            if optimised_cache is None:
                self._session = made(source)
            else:
                from acceptd.loader_optimised import Artifact, Shelf, uncached  # only who has a cache needs it

                if reason := uncached(options, self.selected_provider):
                    self._session, self.artifact = made(source), Artifact("none", {}, reason=reason)
                else:
                    self._session, self.artifact = Shelf(optimised_cache).session(
                        self._optimised_as(file, runtime, providers),
                        lambda kept: made(kept, cached=True),
                        lambda target: made(source, optimized_model_filepath=target),
                    )
        except LoaderError:
            raise
        except Exception as error:  # onnxruntime's own exceptions share no public base
            raise RuntimeRefusedError(
                f"onnxruntime cannot load {os.path.basename(place)}: {str(error)[:300]}"
            ) from error
        if self._session.get_providers()[0] != self.selected_provider:
            raise ProviderUnavailableError(
                f"{self.selected_provider} was requested, onnxruntime took {self._session.get_providers()[0]}"
            )
        if operators:
            loader_pins.check_operators(options, operators)
        check(options, runtime)  # providers load their libraries with the first session
        self.runtime_differences = agree(release.runtime, options, runtime_told, runtime)
        discover(self.interface, self._session)
        if not in_memory:
            release.recheck()

    def _optimised_as(self, file: str, runtime: Any, providers: Sequence[Any]) -> dict[str, Any]:
        """Return the identity that an optimised artifact of this model must have to be run here."""
        sources = {one.path: one.sha256 for one in self.release.files}
        configuration = {"options": self._options.document(), "providers": list(providers)}
        facts = process_facts(runtime)
        return {
            "schema": 1,
            "source": {"bundle_digest": self.release.bundle_digest, "file": file, "sha256": sources[file]},
            "optimiser": {"name": "onnxruntime", "version": facts["onnxruntime"], "build": facts["build"]},
            "configuration": sha256_of(configuration),
            "hardware_class": facts["cpu_class"],
            "runtime_identity": sha256_of(facts | configuration),
        }

    def run(self, inputs: Mapping[str, Any], fed: Callable[[Mapping[str, Any]], None] | None = None) -> Outputs:
        """Run once. ``inputs`` maps each declared name to nested lists, a scalar or an array of its dtype.

        Raises InvalidInputError before a tensor exists (names, dtype, rank, bounds, range, finiteness),
        InvalidOutputError for an output that breaks the interface, RuntimeRefusedError where the run fails.
        """
        bound: Bound = {}
        feed = self._checked(inputs, bound)
        if fed is not None:
            fed(feed)
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
        ready = [(spec, judged(spec, value, self.interface.dims, bound)) for spec, value in given]
        return {spec.name: tensor(spec, value) for spec, value in ready}

    @functools.cached_property
    def runtime(self) -> dict[str, Any]:
        """What runs here, as plain JSON data: versions, native libraries, providers, options, threads."""
        cached = self.artifact is not None and self.artifact.status == "cached"
        return {
            **process_facts(_import_runtime()),
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
        return sha256_of(self.runtime)


class Outputs(Mapping[str, Any]):
    """The checked outputs of one run, by name: numpy arrays (sequences and maps as onnxruntime gives them)."""

    def __init__(self, session: Session, feed: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self.session, self.fed, self._values = session, feed, values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def labels(self, output: str | None = None) -> list[str]:
        """Return one label per row of an output with declared labels; on a tie the lowest index wins."""
        spec = self.labelled(output)
        array = self._values[spec.name]
        rows = array.reshape(-1, array.shape[-1]).argmax(axis=1)  # numpy.argmax: the first occurrence
        return [spec.labels[int(row)] for row in rows]

    def labelled(self, output: str | None = None) -> Spec:
        """Return the output with labels that is meant: the named one, or the only one there is."""
        named = [s for s in self.session.interface.outputs if s.labels and output in {None, s.name}]
        if len(named) != 1:
            if output is None and named:
                several = ", ".join(one.name for one in named)
                raise InvalidInputError(f"several outputs have labels: say which, labels(output) of {several}")
            raise InvalidInputError(f"{output or 'the release'} has no output with labels")
        return named[0]

    def receipt(
        self,
        request_id: str | None = None,
        *,
        raw_input: bytes | str | None = None,
        row: int | None = None,
        output: str | None = None,
        threshold: float | None = None,
    ) -> Receipt:
        """Return the receipt of this run: digests only, never a value (:func:`loader_receipts.receipt_of`)."""
        from acceptd.loader_receipts import receipt_of

        return receipt_of(self, request_id, raw_input=raw_input, row=row, output=output, threshold=threshold)


def _beside(release: Verified, file: str) -> dict[str, Any]:
    """Return the bytes of all other files by the name that the model's external data may give them.

    With such a table onnxruntime takes external data of the main graph from it or not at all, so it is never
    empty.
    """
    folder = file.rpartition("/")[0]
    start = f"{folder}/" if folder else ""
    found = {
        path.removeprefix(start): content
        for path, content in release.contents.items()
        if path != file and path.startswith(start) and len(content)
    }
    return found or {_NOTHING: b"\0"}


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
