"""Loading a model in the design's order.

The load order is :data:`sandbox.messages.LOAD_ORDER`. A step that fails raises RefusedError with the
step's name as stage, and nothing later happens. Nothing of the model is opened before its size and
digest agree with what was sealed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from sandbox import session
from sandbox.interface import Difference, RuntimeValue, compare
from sandbox.messages import LOAD_ORDER, MODEL_DIR, SCRATCH_DIR, Channel, RefusedError, clip, text_of
from sandbox.tensors import ELEMENTS

MAX_PORTS: Final = 4096
MAX_REPEATS: Final = 16
AT_ONCE: Final = 64 << 10
"""Bytes of a model that is read in one piece for its digest: in a stream, a quarter of a MiB is cleared first."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_HEX: Final = re.compile(r"[0-9a-f]{0,64}", re.ASCII)


@dataclass(slots=True)
class Load:
    """What the steps of the load order build up. ``spec`` is the order's."""

    spec: dict[str, Any]
    path: str = ""
    declared: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {"inputs": [], "outputs": []})
    dims: dict[str, dict[str, int]] = field(default_factory=dict)
    profile: dict[str, Any] = field(default_factory=dict)
    providers: list[str] = field(default_factory=list)
    entries: dict[str, str] = field(default_factory=dict)
    options: Any = None
    session: Any = None
    inputs: list[RuntimeValue] = field(default_factory=list)
    outputs: list[RuntimeValue] = field(default_factory=list)
    overridables: list[RuntimeValue] = field(default_factory=list)
    load_ms: float = 0.0
    hash_ms: float = 0.0


def _invalid(where: str, message: str) -> RefusedError:
    return RefusedError("load/order-invalid", where, message)


def manifest_structure(load: Load) -> str:
    """Step 1: the order's own fields, and the declared interface: names, dtypes, dims, ranges."""
    spec = load.spec
    model = spec.get("model")
    if not isinstance(model, str) or not model or model.startswith("/") or ".." in model.split("/"):
        raise _invalid("model", "no path inside the bundle")
    load.path = os.path.join(str(spec.get("root", MODEL_DIR)), model)
    if not _SHA256.fullmatch(str(spec.get("sha256"))) or not _is_count(spec.get("size")):
        raise _invalid("sha256", "64 lowercase hex digits and a size are needed")
    repeats, largest = spec.get("repeats", 2), spec.get("max_elements", 0)
    if not (_is_count(repeats) and 1 <= repeats <= MAX_REPEATS) or not _is_count(largest):
        raise _invalid("repeats", f"1 to {MAX_REPEATS} repeats and a count of elements are needed")
    if not _HEX.fullmatch(str(spec.get("seed", ""))):
        raise _invalid("seed", "at most 64 lowercase hex digits")
    load.profile = dict(spec.get("profile") or {})
    load.dims = {str(name): _bounds(str(name), bounds) for name, bounds in (spec.get("dims") or {}).items()}
    if not spec.get("inferred", False):
        declared = spec.get("declared") or {}
        for side in ("inputs", "outputs"):
            load.declared[side] = _declared(side, declared.get(side) or [])
    return f"{len(load.declared['inputs'])} inputs, {len(load.declared['outputs'])} outputs declared"


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _bounds(name: str, bounds: Any) -> dict[str, int]:
    pair = [bounds.get(end) for end in ("min", "max")] if isinstance(bounds, dict) else []
    ends = [int(end) for end in pair if _is_count(end)]
    if len(ends) != 2 or ends[0] > ends[1]:
        raise _invalid(f"dims.{clip(name, 200)}", "min and max with min <= max are needed")
    return {"min": ends[0], "max": ends[1]}


def _declared(side: str, values: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: set[str] = set()
    for value in values:
        name, where = value.get("name"), f"{side}.{clip(str(value.get('name')), 200)}"
        if not isinstance(name, str) or not name or name in seen:
            raise _invalid(where, "a name that is empty or stands twice")
        seen.add(name)
        if value.get("dtype") not in ELEMENTS:
            raise _invalid(where, f"unknown dtype {clip(str(value.get('dtype')), 60)}")
        for dim in value.get("shape") or ():
            if not (_is_count(dim) or (isinstance(dim, str) and dim)):
                raise _invalid(where, "a dimension that is neither a size nor a name")
        limits = value.get("range")
        if limits is not None and not _is_range(limits):
            raise _invalid(where, "a range needs two finite numbers, the lower first")
    return list(values)


def _is_range(limits: Any) -> bool:
    return (
        isinstance(limits, list)
        and len(limits) == 2
        and all(isinstance(edge, int | float) and math.isfinite(edge) for edge in limits)
        and limits[0] <= limits[1]
    )


def profile_bounds(load: Load) -> str:
    """Step 2: threads and session entries that a run may have."""
    return session.check_profile(load.profile)


def size(load: Load) -> str:
    """Step 3: an empty or differently sized model file is refused before a byte is read."""
    model, sealed = load.spec["model"], load.spec["size"]
    try:
        status = os.stat(load.path)
    except OSError as error:
        raise RefusedError("load/size-mismatch", model, error.strerror or "cannot be read") from error
    if not stat.S_ISREG(status.st_mode):
        raise RefusedError("load/size-mismatch", model, "no regular file")
    if status.st_size == 0:
        raise RefusedError("load/empty-model", model, "the model file is empty")
    if status.st_size != sealed:
        raise RefusedError("load/size-mismatch", model, f"{status.st_size} bytes, sealed were {sealed}")
    return f"{status.st_size} bytes"


def digest(load: Load) -> str:
    """Step 4: SHA-256 of the whole file; a large one streamed."""
    started = time.perf_counter()
    with open(load.path, "rb", buffering=0) as file:
        if load.spec["size"] <= AT_ONCE:  # step 3 has held it against the file; one byte more shows one that grew
            found = hashlib.sha256(file.read(load.spec["size"] + 1)).hexdigest()
        else:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    load.hash_ms = (time.perf_counter() - started) * 1000
    if found != load.spec["sha256"]:
        raise RefusedError(
            "load/digest-mismatch", load.spec["model"], f"{found}, sealed was {load.spec['sha256']}"
        )
    return found


def provider(load: Load) -> str:
    """Step 5: the explicit providers are in this build, or a permitted fallback is recorded."""
    load.providers, note = session.provider_plan(load.profile, session.available_providers())
    return f"{','.join(load.providers)} {note}"


def builder(load: Load) -> str:
    """Step 6: fresh session options, silent; with the profiler only where the order asks for a profiled run."""
    load.options = session.new_options()
    if load.spec.get("profiled"):
        load.options.enable_profiling = True
        load.options.profile_file_prefix = f"{load.spec.get('scratch', SCRATCH_DIR)}/p"
        return "SessionOptions, profiled"
    return "SessionOptions"


def cpu_allocator(load: Load) -> str:
    """Step 7: no arena, no memory pattern."""
    session.plan_memory(load.options)
    return "arena off, memory pattern off"


def options(load: Load) -> str:
    """Step 8: threads, optimisation level, session entries, custom-operator libraries of the profile."""
    load.entries = session.session_entries(load.profile, load.providers)
    if not load.spec.get("packed", True):
        load.entries |= session.UNPACKED
    optimised = bool(load.spec.get("optimised", True))
    session.apply_options(load.options, load.profile, load.entries, optimised=optimised)
    libraries = session.register_operators(load.options, load.profile)
    note = "optimised" if optimised else "ORT_DISABLE_ALL"
    note += "" if load.spec.get("packed", True) else ", weights left where they lie"
    return f"{note}, {libraries} custom-operator libraries" if libraries else note


def create_session(load: Load) -> str:
    """Step 9: the session, from the sealed path."""
    started = time.perf_counter()
    own = session.provider_options(load.profile, load.providers)
    load.session = session.create(load.path, load.options, load.providers, own if any(own) else ())
    load.load_ms = (time.perf_counter() - started) * 1000
    taken = [str(name) for name in load.session.get_providers()]
    session.check_taken(load.providers, taken, load.profile)
    left = [name for name in load.providers if name not in taken]
    return f"selected_provider={taken[0]} used_cpu_fallback=true" if left else ""


def discover_schema(load: Load) -> str:
    """Step 10: what the runtime itself says of inputs, outputs and overridable initializers."""
    load.inputs = session.inputs_of(load.session)
    load.outputs = session.outputs_of(load.session)
    load.overridables = session.overridables_of(load.session)
    if len(load.inputs) > MAX_PORTS or len(load.outputs) > MAX_PORTS:
        message = f"{len(load.inputs)} inputs and {len(load.outputs)} outputs; {MAX_PORTS} each are the limit"
        raise RefusedError("load/failed", load.spec["model"], message)
    return f"{len(load.inputs)} inputs, {len(load.outputs)} outputs, {len(load.overridables)} overridable"


def exact_inputs(load: Load) -> str:
    """Step 11: declared inputs are the runtime's: names in order, kinds, dtypes, shapes."""
    return _exact("input", load.declared["inputs"], load.inputs, load)


def exact_outputs(load: Load) -> str:
    """Step 12: declared outputs are the runtime's."""
    return _exact("output", load.declared["outputs"], load.outputs, load)


def _exact(side: str, declared: Sequence[dict[str, Any]], found: Sequence[RuntimeValue], load: Load) -> str:
    if not any(load.declared.values()):
        return "nothing is declared"
    difference: Difference | None = compare(side, declared, found, load.dims)
    if difference is not None:
        raise RefusedError(difference.code, difference.where, difference.message)
    return f"{len(found)} exact"


def receipts(load: Load) -> str:
    """Step 13: a digest over everything that decides how this session computes."""
    record = {
        "model": load.spec["sha256"],
        "providers": load.session.get_providers(),
        "entries": load.entries,
        "provider_options": load.profile.get("provider_options") or {},
        "custom_operators": [one["sha256"] for one in load.profile.get("custom_operators") or ()],
        "optimised": bool(load.spec.get("optimised", True)),
        "optimisation": load.profile.get("optimisation", "all"),
        "threads": [load.profile.get("intra_op_threads", 1), load.profile.get("inter_op_threads", 1)],
        "runtime": session.runtime_facts(),
    }
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


Step = Callable[[Load], str]
STEPS: dict[str, Step] = dict(
    zip(
        LOAD_ORDER,
        (
            manifest_structure,
            profile_bounds,
            size,
            digest,
            provider,
            builder,
            cpu_allocator,
            options,
            create_session,
            discover_schema,
            exact_inputs,
            exact_outputs,
            receipts,
        ),
        strict=True,
    )
)
"""The load order: step name to function; each returns its note or raises."""


def another(load: Load, *, threads: int = 0) -> Any:
    """Return one more session of a loaded model: optimised, as the profile says, perhaps with other ``threads``.

    Raises RefusedError as the step ``session`` does.
    """
    fresh = session.new_options()
    session.plan_memory(fresh)
    profile = load.profile | ({"intra_op_threads": threads} if threads else {})
    session.apply_options(fresh, profile, load.entries, optimised=True)
    session.register_operators(fresh, load.profile)
    own = session.provider_options(load.profile, load.providers)
    return session.create(load.path, fresh, load.providers, own if any(own) else ())


def load_in_order(load: Load, channel: Channel) -> None:
    """Go through the load order; send a ``step`` frame after each, and the schema when it is known.

    Raises RefusedError with the step's name as ``stage``; an unexpected error becomes ``load/failed``.
    """
    for name, step in STEPS.items():
        try:
            note = step(load)
        except RefusedError as error:
            raise RefusedError(error.code, error.where, error.message, stage=name) from error
        except MemoryError as error:
            raise RefusedError("resources/memory-limit", name, "memory was refused", stage=name) from error
        except Exception as error:
            message = text_of(f"{type(error).__name__}: {error}")
            raise RefusedError("load/failed", name, message, stage=name) from error
        channel.send("step", {"name": name, "note": clip(note)})
        if name == "discover-schema":
            channel.send("schema", schema_frame(load))


def schema_frame(load: Load) -> dict[str, Any]:
    """Return the ``schema`` frame: the runtime's own word about inputs, outputs and providers."""
    room = MAX_PORTS - len(load.inputs)
    inputs = [value.info() for value in load.inputs]
    inputs += [value.info(overridable=True) for value in load.overridables[:room]]
    providers = list(load.session.get_providers())
    outputs = [value.info() for value in load.outputs]
    facts = session.runtime_facts()
    return {
        "inputs": inputs,
        "outputs": outputs,
        "providers": providers,
        "load_ms": load.load_ms,
        "runtime": facts,
    }
