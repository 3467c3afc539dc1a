"""The accepted session options of a release, as the loader reads and applies them. Imports no runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from acceptd.errors import MalformedError, ProviderUnavailableError, RuntimeRefusedError
from acceptd.release.trust import is_sha256

CPU: Final = "CPUExecutionProvider"
_LEVELS: Final = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_FIXED: Final = {
    "session.load_model_format": "ONNX",  # else bytes that look like ORT's own format meet another parser
    "session.intra_op.allow_spinning": "0",
    "session.inter_op.allow_spinning": "0",
}
_NOWHERE: Final = "/proc/self/acceptd-loads-no-file-from-here"
"""Nobody can make it. onnxruntime looks for external data of subgraphs (of an If, a Loop) in a directory even
where the data was given in memory, and for bytes that is the working directory, where anybody may have put it
(measured).
"""
_FOLDER: Final = "session.model_external_initializers_file_folder_path"
_BORROWED: Final = "session.use_external_initializer_file_buffers_directly"
"""Sessions compute from the bytes that they are given, and copy none: those must outlive them, unchanged. An
onnxruntime that does not know the entry copies them, twice.
"""


class OperatorLibrary(NamedTuple):
    """A library of custom operators that the release was accepted with."""

    name: str
    sha256: str
    abi: int
    domain: str


class Options:
    """The accepted session options; a missing or odd member is refused, not guessed.

    ``libraries`` are the pinned native libraries by file name, ``version`` the pinned onnxruntime; both may be
    empty, and are in releases that were made before there were pins.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        try:
            self.providers = [str(provider) for provider in document["providers"]]
            self.fallback = document["allow_cpu_fallback"] is True
            self.intra, self.inter = int(document["intra_op_threads"]), int(document["inter_op_threads"])
            self.level = _LEVELS[document["optimisation"]]
            self.entries = {**_texts(document["session_entries"]), **_FIXED}
            given = document.get("provider_options", {})
            self.provider_options = {str(name): _texts(options) for name, options in given.items()}
            self.version = str(document.get("onnxruntime", ""))
            self.libraries = _texts(document.get("libraries", {}))
            self.operators = [
                OperatorLibrary(str(one["name"]), str(one["sha256"]), int(one["abi"]), str(one["domain"]))
                for one in document.get("custom_operators", [])
            ]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MalformedError(f"the release's session options are not usable: {error!r}") from error
        if not self.providers or self.intra < 1 or self.inter < 1:
            raise MalformedError("the release's session options name no provider or no thread")
        for digest in (*self.libraries.values(), *(one.sha256 for one in self.operators)):
            if not is_sha256(digest):
                raise MalformedError("the release's session options pin a library without a digest")

    def document(self) -> dict[str, Any]:
        """Return what counts for how a session computes, as JSON data."""
        return {
            "intra_op_threads": self.intra,
            "inter_op_threads": self.inter,
            "optimisation": self.level,
            "entries": dict(self.entries),
            "provider_options": {name: dict(options) for name, options in self.provider_options.items()},
            "custom_operators": sorted(one.sha256 for one in self.operators),
        }

    def build(self, runtime: Any, selected: str, *, optimised: bool = False, from_memory: bool = False) -> Any:
        """Return onnxruntime's SessionOptions.

        ``optimised``: for a model that was optimised with them before. ``from_memory``: for bytes, whose external
        data is given beside them, is looked for in no directory, and must outlive the session.
        """
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.intra, self.inter
        level = _LEVELS["disable"] if optimised else self.level
        options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        options.enable_profiling = False
        options.log_severity_level = 3
        entries = dict(self.entries)
        if selected != CPU and not self.fallback:
            entries["session.disable_cpu_ep_fallback"] = "1"
        if from_memory:
            entries |= {_FOLDER: _NOWHERE, _BORROWED: "1"}
        for key, value in entries.items():
            options.add_session_config_entry(key, value)
        return options

    def choose(self, runtime: Any) -> tuple[str, list[str | tuple[str, dict[str, str]]]]:
        """Return the provider that will run and the explicit list, each with its options where it has any.

        Never onnxruntime's default list. Raises ProviderUnavailableError.
        """
        available = set(runtime.get_available_providers())
        requested = self.providers[0]
        if requested in available:
            listed = [provider for provider in self.providers if provider in available]
            if self.fallback and CPU in available and CPU not in listed:
                listed.append(CPU)
        elif self.fallback and CPU in available:
            requested, listed = CPU, [CPU]
        else:
            raise ProviderUnavailableError(
                f"{requested} is not available here ({', '.join(sorted(available))}) and no fallback was accepted"
            )
        given = self.provider_options
        return requested, [(name, dict(given[name])) if given.get(name) else name for name in listed]


def _texts(table: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in table.items()}


def register(options: Any, paths: Mapping[str, str]) -> None:
    """Load the custom-operator libraries at ``paths`` (file name to path) into SessionOptions.

    Raises RuntimeRefusedError: one does not load, or registers nothing.
    """
    for name, path in sorted(paths.items()):
        try:
            options.register_custom_ops_library(path)
        except Exception as error:  # onnxruntime's own exceptions share no public base
            raise RuntimeRefusedError(f"custom operators {name}: {str(error)[:300]}") from error
