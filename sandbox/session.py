"""Everything that ``run`` asks of onnxruntime: options, session, schema, and what its errors mean.

Defaults and their reasons (design, section 6; measured facts): one thread and no spinning for
repeatable results, no arena for a predictable resident set, no memory pattern because shapes vary,
never profiling, only the ONNX parser (bytes with ``ORTM`` at offset 4 otherwise go to another one),
loading by path so that external data resolves beside the model.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Final

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read at import: it would start a thread and write files

import numpy as np
import onnxruntime as ort

from sandbox import entries as entries_table
from sandbox import warm_models
from sandbox.interface import RuntimeValue, runtime_value
from sandbox.messages import RefusedError, clip, text_of

_SILENT: Final = 4
ort.set_default_logger_severity(_SILENT)

CPU: Final = "CPUExecutionProvider"
LOCALE: Final = "en_US.UTF-8"
"""What onnxruntime's StringNormalizer asks the C library for."""
MAX_THREADS: Final = 256
LEVELS: Final = {
    "disable": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
FIXED_ENTRIES: Final = entries_table.FIXED
ALLOWED_ENTRIES: Final = entries_table.ALLOWED
UNPACKED: Final = {"session.disable_prepacking": "1"}
"""Weights stay where they lie and are not rearranged for the kernels: a session of any size is made at once."""

_MEMORY: Final = re.compile(
    r"bad_alloc|failed to allocate memory|bad allocation|cannot allocate memory|out of memory"
    r"|std::length_error|cannot create std::vector larger than max_size",
    re.IGNORECASE,
)
_UNSUPPORTED: Final = re.compile(
    r"could not find an implementation for|is not a registered function/op|no op registered for"
    r"|kernel not found|not implemented|is under development and support for this is limited"
    r"|unsupported model ir version|no opset import for domain|no schema registered for"
    r"|is not currently registered or supported",
    re.IGNORECASE,
)


def provider_plan(profile: dict[str, Any], available: Sequence[str]) -> tuple[list[str], str]:
    """Return (providers, note) for a profile and the providers of this build.

    Raises RefusedError ``load/provider-unavailable`` when one is missing and no fallback is allowed.
    """
    requested = [str(name) for name in profile.get("providers") or [CPU]]
    missing = [name for name in requested if name not in available]
    if not missing:
        return requested, "used_cpu_fallback=false"
    if not profile.get("allow_cpu_fallback", False):
        message = f"{', '.join(missing)} is not in this onnxruntime build, which has {', '.join(available)}"
        raise RefusedError("load/provider-unavailable", missing[0], message)
    selected = [name for name in requested if name in available]
    if CPU not in selected:
        selected.append(CPU)
    return selected, f"requested_provider={missing[0]} selected_provider={selected[0]} used_cpu_fallback=true"


def check_taken(planned: Sequence[str], taken: Sequence[str], profile: dict[str, Any]) -> None:
    """Refuse a session that has quietly left out a provider: onnxruntime only warns when it cannot start one.

    Raises RefusedError ``load/provider-unavailable``, unless the profile allows the fallback.
    """
    missing = [name for name in planned if name not in taken]
    if missing and not profile.get("allow_cpu_fallback", False):
        message = f"{', '.join(missing)} could not be started here; the session has {', '.join(taken)}"
        raise RefusedError("load/provider-unavailable", missing[0], message)


def check_profile(profile: dict[str, Any]) -> str:
    """Return a note on the profile's threads and entries. Raises RefusedError ``load/profile-bounds``."""
    for key in ("intra_op_threads", "inter_op_threads"):
        count = profile.get(key, 1)
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_THREADS:
            message = f"{count!r} where 1 to {MAX_THREADS} threads are allowed"
            raise RefusedError("load/profile-bounds", f"profile.{key}", message)
    if profile.get("optimisation", "all") not in LEVELS:
        raise RefusedError("load/profile-bounds", "profile.optimisation", f"one of {', '.join(LEVELS)}")
    for key, value in (profile.get("session_entries") or {}).items():
        if key not in ALLOWED_ENTRIES or not isinstance(value, str):
            message = f"{clip(str(key), 200)} may not be set by a profile"
            raise RefusedError("load/profile-bounds", "profile.session_entries", message)
    return f"{profile.get('intra_op_threads', 1)} intra-op, {profile.get('inter_op_threads', 1)} inter-op threads"


def session_entries(profile: dict[str, Any], providers: Sequence[str]) -> dict[str, str]:
    """Return all session entries of a run: the profile's, and over them the fixed ones."""
    entries = {str(key): str(value) for key, value in (profile.get("session_entries") or {}).items()}
    if CPU not in providers and not profile.get("allow_cpu_fallback", False):
        entries["session.disable_cpu_ep_fallback"] = "1"  # a silent fallback would be another runtime
    return entries | FIXED_ENTRIES


def new_options() -> Any:
    """Return silent SessionOptions that write nothing."""
    options = ort.SessionOptions()
    options.log_severity_level = _SILENT
    options.enable_profiling = False
    return options


def plan_memory(options: Any) -> None:
    """Switch off the arena and the memory pattern."""
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False


def apply_options(options: Any, profile: dict[str, Any], entries: dict[str, str], *, optimised: bool) -> None:
    """Set threads, order, optimisation level and entries. Raises RefusedError ``load/options-refused``."""
    try:
        options.intra_op_num_threads = int(profile.get("intra_op_threads", 1))
        options.inter_op_num_threads = int(profile.get("inter_op_threads", 1))
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = LEVELS[profile.get("optimisation", "all") if optimised else "disable"]
        for key, value in entries.items():
            options.add_session_config_entry(key, value)
    except Exception as error:
        raise RefusedError("load/options-refused", "profile.session_entries", text_of(str(error))) from error


def register_operators(options: Any, profile: dict[str, Any]) -> int:
    """Register the profile's custom-operator libraries, which the parent has loaded; return how many.

    Raises RefusedError ``load/options-refused``.
    """
    listed = profile.get("custom_operators") or []
    try:
        for one in listed:
            options.register_custom_ops_library(str(one["path"]))
    except Exception as error:
        raise RefusedError("load/options-refused", "profile.custom_operators", text_of(str(error))) from error
    return len(listed)


def provider_options(profile: dict[str, Any], providers: Sequence[str]) -> list[dict[str, str]]:
    """Return the options of each provider, in their order; empty where the profile has none."""
    wanted = profile.get("provider_options") or {}
    return [{str(key): str(value) for key, value in (wanted.get(name) or {}).items()} for name in providers]


def create(path: str, options: Any, providers: Sequence[str], own: Sequence[dict[str, str]] = ()) -> Any:
    """Return an InferenceSession for the model at ``path``, without onnxruntime's own silent fallback.

    ``own`` are the providers' own options, one for each or none. Raises RefusedError with the code of
    :func:`classify`.
    """
    try:
        return ort.InferenceSession(
            path, options, providers=list(providers), provider_options=list(own) or None, enable_fallback=0
        )
    except MemoryError as error:
        raise RefusedError(
            "resources/memory-limit", "model", "the model does not load in the memory limit"
        ) from error
    except Exception as error:
        code, message = classify(error)
        raise RefusedError(code, "model", message) from error


def classify(error: Exception) -> tuple[str, str]:
    """Return (finding code, text) for an error of session creation, by its type and words."""
    text, kind = text_of(str(error)), type(error).__name__
    if is_memory_error(error):
        return "resources/memory-limit", text
    if _facts.get("locale", LOCALE) != LOCALE and "Failed to construct locale" in text:
        return "load/locale-missing", text  # the host's fault, not the model's
    if kind == "NotImplemented" or _UNSUPPORTED.search(text):
        return "load/unsupported-operator", text
    if kind in {"InvalidGraph", "InvalidProtobuf"}:
        return "load/invalid-model", text
    return "load/failed", text


def is_memory_error(error: Exception) -> bool:
    """Say whether onnxruntime's error means that memory was refused."""
    return isinstance(error, MemoryError) or bool(_MEMORY.search(str(error)))


def available_providers() -> list[str]:
    """Return the execution providers of this onnxruntime build."""
    return [str(name) for name in ort.get_available_providers()]


def inputs_of(session: Any) -> list[RuntimeValue]:
    """Return the required and optional inputs in graph order, without overridable initializers."""
    return [runtime_value(node.name, node.type, node.shape) for node in session.get_inputs()]


def overridables_of(session: Any) -> list[RuntimeValue]:
    """Return the initializers that a caller may replace."""
    return [runtime_value(node.name, node.type, node.shape) for node in session.get_overridable_initializers()]


def outputs_of(session: Any) -> list[RuntimeValue]:
    """Return the outputs in graph order."""
    return [runtime_value(node.name, node.type, node.shape) for node in session.get_outputs()]


_facts: dict[str, str] = {}


def runtime_facts() -> dict[str, str]:
    """Return versions, providers and build of this runtime; gathered once, before the fork."""
    if not _facts:
        _facts.update({
            "onnxruntime": ort.__version__,
            "build": clip(ort.get_build_info()),
            "numpy": np.__version__,
            "available_providers": ",".join(available_providers()),
        })  # fmt: skip
    return dict(_facts)


def _warm(model: bytes) -> Any:
    options = new_options()
    plan_memory(options)
    apply_options(options, {}, session_entries({}, [CPU]), optimised=True)
    return ort.InferenceSession(model, options, providers=[CPU], enable_fallback=0)


def preload() -> Any:
    """Create sessions of built-in models, so that a job finds everything warm; return the first.

    StringNormalizer's kernel asks glibc for the locale en_US.UTF-8; glibc keeps what it has loaded,
    and a job's private root does not hold it. Where the host has no such locale the kernel cannot be
    made anywhere, and the runtime facts say so.
    """
    runtime_facts()
    warm = _warm(warm_models.TINY)
    try:
        _warm(warm_models.TEXT).run(None, {"words": np.array(["A"], object)})
    except Exception:  # noqa: BLE001 - a host without the locale; the type is onnxruntime's own
        _facts["locale"] = f"{LOCALE} is not installed"
    else:
        _facts["locale"] = LOCALE
    return warm
