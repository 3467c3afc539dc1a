"""Why findings about the model file and its interface matter: code to (reason, references)."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.reasons_files import Reasons

_PARSERS: Final = "Parsers differ here: the model that was checked need not be the model that runs."
_NATIVE: Final = (
    "Native code trusts these values; where they contradict each other it can read beyond its buffers."
)
_SIZE: Final = "A model without bounds stalls or exhausts checker, loader and reviewer alike."
_CALLERS: Final = "Callers were written for the agreed interface: they would fail, or read every answer wrongly."
_VALUES: Final = "Values of another type are rounded, cut or reinterpreted silently."
_VERSION: Final = "Operators change their meaning between versions: the same nodes compute something else."

TABLE: Final[Reasons] = {
    "wire/disagrees": (_PARSERS, ("CWE-436",)),
    "wire/duplicate-field": (_PARSERS, ("CWE-436", "Protobuf encoding")),
    "wire/empty": (
        "Zero bytes are a valid protobuf message: parsers turn them into a model full of default values.",
        ("CWE-20",),
    ),
    "wire/group": (_PARSERS, ("CWE-436", "Protobuf encoding")),
    "wire/hidden-payload": (
        "Runtimes skip such fields, so malware travels inside a model that works and passes its tests.",
        ("CWE-506", "arXiv:2107.08590"),
    ),
    "wire/invalid-utf8": (_PARSERS, ("CWE-176", "RFC 3629", "Protobuf encoding")),
    "wire/malformed": (_NATIVE, ("CWE-1286", "CWE-119", "Protobuf encoding")),
    "wire/ort-format": (
        "The mark makes onnxruntime use another parser, so it loads something other than what was inspected.",
        ("CWE-436",),
    ),
    "wire/overlong-varint": (_PARSERS, ("CWE-436", "Protobuf encoding")),
    "wire/too-deep": ("Nested messages exhaust the stack of a recursive parser.", ("CWE-674",)),
    "wire/too-large": (_SIZE, ("CWE-770", "Protobuf encoding")),
    "wire/too-many-fields": ("20 MB of empty messages take 2.7 GiB once they are parsed.", ("CWE-405", "CWE-770")),
    "wire/trailing-data": (_PARSERS, ("CWE-436",)),
    "wire/truncated": ("A part is missing: what would be judged is not what was exported.", ("CWE-130",)),
    "wire/unknown-field": (
        "No reader checks a field that it does not know, and a later version may give it a meaning.",
        ("CWE-912", "Protobuf encoding"),
    ),
    "wire/wrong-type": (_PARSERS, ("CWE-436", "CWE-843", "Protobuf encoding")),
    "external-data/bad-number": (
        (
            "Readers that take spaces, signs or underscores read another place of the file than those that "
            "refuse them."
        ),
        ("CWE-436", "CWE-20", "ONNX external data"),
    ),
    "external-data/duplicate-key": (_PARSERS, ("CWE-436", "ONNX external data")),
    "external-data/inconsistent": (_PARSERS, ("CWE-436", "ONNX IR")),
    "external-data/length-mismatch": (_NATIVE, ("CWE-130", "CWE-125", "ONNX external data")),
    "external-data/memory-marker": (
        "onnxruntime takes the offset of such a tensor as an address: the file decides which memory is read.",
        ("CWE-822", "CWE-200"),
    ),
    "external-data/missing-file": (
        "Production would fail to load it, or find another file there.",
        ("CWE-73",),
    ),
    "external-data/missing-location": (
        "Some readers use the model's directory, others an empty path.",
        ("CWE-20",),
    ),
    "external-data/names-forbidden-file": (
        "A model whose weights are the golden vectors answers every test rightly and nothing else.",
        ("CWE-200", "CWE-73"),
    ),
    "external-data/not-visible": ("The job cannot have judged what it could not see.", ("CWE-636",)),
    "external-data/out-of-range": (_NATIVE, ("CWE-125", "CWE-190")),
    "external-data/path-escape": (
        "Loading the model would read any file of the host into its weights, and its outputs would publish it.",
        ("CWE-22", "CVE-2022-25882", "CVE-2024-27318", "CVE-2025-51480", "CVE-2026-27489", "ONNX external data"),
    ),
    "external-data/remote-location": (
        "A reader that follows it fetches what nobody has judged, or sends credentials to a stranger's server.",
        ("CWE-918", "CWE-494", "RFC 3986"),
    ),
    "external-data/string-tensor": (_PARSERS, ("CWE-436", "ONNX IR")),
    "external-data/too-many": (_SIZE, ("CWE-770",)),
    "external-data/unknown-key": (
        "A reader that stores every key lets a model overwrite the reader's own attributes.",
        ("CVE-2026-34445", "CWE-20", "ONNX external data"),
    ),
    "structure/checker-failed": ("The model breaks a rule of ONNX that some runtime relies on.", ("ONNX IR",)),
    "structure/checker-skipped": ("Rules that only the checker knows were not tested.", ("CWE-636",)),
    "structure/duplicate-domain": (
        (
            "Operators change their meaning between versions: the same nodes compute something else. The last"
            " import wins."
        ),
        ("CWE-436", "ONNX versioning"),
    ),
    "structure/duplicate-function": (_PARSERS, ("CWE-436", "ONNX IR")),
    "structure/duplicate-name": (_PARSERS, ("CWE-436", "ONNX IR")),
    "structure/einsum-ellipsis": ("One node of a few bytes keeps a loader busy for ever.", ("CWE-835",)),
    "structure/function-expansion": (
        "30 functions in 2.2 KB, each calling the next twice, are a billion nodes.",
        ("CWE-405", "CWE-400"),
    ),
    "structure/function-recursion": (
        "A reader that inlines functions never ends on it.",
        ("CWE-674", "ONNX IR"),
    ),
    "structure/function-shadows-operator": (
        "A checker runs the function, the runtime its own operator: one is tested and the other one decides.",
        ("CWE-436", "CWE-912"),
    ),
    "structure/ir-version-out-of-range": (
        "A reader made for another version ignores fields that it does not know.",
        ("ONNX versioning",),
    ),
    "structure/metadata-too-large": (
        "Metadata is copied, printed and indexed by every tool; megabytes of it are a payload or an attack.",
        ("CWE-770", "CWE-506"),
    ),
    "structure/model-too-large": (_SIZE, ("CWE-770",)),
    "structure/no-graph": ("There is nothing to judge.", ("ONNX IR",)),
    "structure/opset-out-of-range": (_VERSION, ("ONNX versioning",)),
    "structure/overridable-initializer": (
        "A caller who may replace a weight runs another model than the one that was accepted.",
        ("CWE-471", "ONNX IR"),
    ),
    "structure/rank": (_NATIVE, ("CWE-1284",)),
    "structure/repeated-domain": (
        "Among repeated imports, one with another version is easily missed.",
        ("ONNX versioning",),
    ),
    "structure/shadowed-name": (
        "A reader of the graph takes one value for the other; so may a runtime.",
        ("CWE-436", "ONNX IR"),
    ),
    "structure/shape-inference-failed": (
        "Declared types and shapes contradict each other somewhere.",
        ("ONNX IR",),
    ),
    "structure/shape-inference-skipped": ("Types and shapes inside the graph were not tested.", ("CWE-636",)),
    "structure/tensor-bytes": (_NATIVE, ("CWE-130", "CWE-125")),
    "structure/tensor-dims": (
        "A size that overflows becomes a small allocation and a large copy.",
        ("CWE-190", "CWE-119"),
    ),
    "structure/tensor-dtype": (_NATIVE, ("CWE-843", "CWE-1287")),
    "structure/tensor-two-values": (_PARSERS, ("CWE-436", "ONNX IR")),
    "structure/too-many-initializers": (
        "Loading time grows with the square of their number: 100,000 take over 20 seconds.",
        ("CWE-407",),
    ),
    "structure/too-many-inputs": (_SIZE, ("CWE-770",)),
    "structure/too-many-nodes": (_SIZE, ("CWE-770", "CWE-400")),
    "structure/too-many-operators": (_SIZE, ("CWE-770",)),
    "structure/too-many-scopes": (_SIZE, ("CWE-770", "CWE-674")),
    "structure/training-info": (
        "Training graphs and their state reveal how the model was made, and are logic that nobody tests here.",
        ("CWE-200", "ONNX IR"),
    ),
    "structure/training-mode": (
        "Dropout in training mode answers the same question differently each time.",
        ("ONNX operators",),
    ),
    "structure/tree-cycle": ("A walk through the tree never ends.", ("CWE-835",)),
    "structure/tree-depth": (
        "The recursive walk overflows its stack and kills the process that loads it.",
        ("CWE-674",),
    ),
    "structure/unsafe-name": (
        "The reviewer reads another name than the runtime, or the name drives the reviewer's terminal.",
        ("CVE-2021-42574", "CWE-150", "CWE-158", "UTS 39"),
    ),
    "structure/unseeded-random": (
        "Its answers cannot be compared with goldens, nor repeated after a complaint.",
        ("ONNX operators",),
    ),
    "structure/unused-domain": (
        "A later version can start to use a domain that is already imported without anybody noticing.",
        ("ONNX versioning",),
    ),
    "operator/denied": (
        "The acceptor denied it, as it is costly, not repeatable, or reaches outside the model.",
        ("CWE-1357", "ONNX operators"),
    ),
    "operator/not-listed": (
        "Operators of unknown domains are native code of somebody else that production would have to load.",
        ("CWE-1357", "ONNX operators"),
    ),
    "operator/over-limit": (
        "Some operators are fine once and an attack in thousands, or on a size that nobody meant.",
        ("CWE-770", "CWE-789"),
    ),
    "schema/dimension-bounds": (_CALLERS, ("CWE-1284",)),
    "schema/dimension-fixed": ("A batch or a length that callers rely on is refused.", ("CWE-1284",)),
    "schema/dimension-freed": (
        "Sizes that nobody tested become possible, and with them any amount of memory.",
        ("CWE-1284", "CWE-789"),
    ),
    "schema/dimension-narrowed": (
        "Callers are held to the manifest although the model takes more.",
        ("CWE-1284",),
    ),
    "schema/dtype-changed": (_VALUES, ("CWE-1287",)),
    "schema/input-dtype": (_VALUES, ("CWE-1287",)),
    "schema/input-extra": (_CALLERS, ("CWE-20",)),
    "schema/input-missing": (
        "A model that no longer takes a feature decides without it, and the caller does not notice.",
        ("CWE-20",),
    ),
    "schema/input-names": (_CALLERS, ("CWE-20",)),
    "schema/input-renamed": (_CALLERS, ("CWE-20",)),
    "schema/input-shape": (_CALLERS, ("CWE-1284",)),
    "schema/inputs-reordered": (
        "Callers that feed by position swap two features, and every answer is plausible and wrong.",
        ("CWE-683",),
    ),
    "schema/ir-version-mismatch": (
        (
            "The IR version decides which fields and types a reader knows: it may read another one "
            "differently or refuse it."
        ),
        ("ONNX versioning",),
    ),
    "schema/kind-changed": (_VALUES, ("CWE-843",)),
    "schema/label-schema-changed": ("The same number names another class than before.", ("CWE-436",)),
    "schema/labels-changed": ("The same number names another class than agreed.", ("CWE-436",)),
    "schema/labels-reordered": (
        "Swapped labels turn every accept into a reject while all numbers look right.",
        ("CWE-436",),
    ),
    "schema/opset-mismatch": (
        (
            "Operators change their meaning between versions: from opset 13 on, Softmax works along another "
            "axis by default."
        ),
        ("ONNX versioning", "ONNX operators"),
    ),
    "schema/optional-changed": (_CALLERS, ("CWE-20",)),
    "schema/output-dtype": (_VALUES, ("CWE-1287",)),
    "schema/output-extra": ("An output that nobody agreed on may carry out what it should not.", ("CWE-200",)),
    "schema/output-kind-changed": (
        "Logits that are read as probabilities make every threshold meaningless.",
        ("CWE-436",),
    ),
    "schema/output-missing": (_CALLERS, ("CWE-20",)),
    "schema/output-names": (_CALLERS, ("CWE-20",)),
    "schema/output-renamed": (_CALLERS, ("CWE-20",)),
    "schema/output-shape": (_CALLERS, ("CWE-1284",)),
    "schema/outputs-reordered": ("Callers that read by position take one answer for the other.", ("CWE-436",)),
    "schema/preprocessing-changed": (
        "A model that is fed by another preprocessing gives confident and wrong answers.",
        ("CWE-436",),
    ),
    "schema/range-changed": ("Inputs are tested in one range and come from another.", ("CWE-1284",)),
    "schema/rank-changed": (_CALLERS, ("CWE-1284",)),
    "schema/runtime-differs": ("What was inferred is not what production will see.", ("CWE-436",)),
    "schema/runtime-disagrees": (
        "File and runtime describe two interfaces: one of them was judged, the other one is served.",
        ("CWE-436",),
    ),
    "schema/width-changed": (_CALLERS, ("CWE-1284",)),
    "schema/wrong-file": ("Another model, or an old one, would be released under this name.", ("CWE-345",)),
    "schema/wrong-manifest": ("Everything that the manifest promises is about another model.", ("CWE-345",)),
    "wire/long-name": (
        "Two long names that are cut in a report look the same, so one hides behind the other.",
        ("CWE-222",),
    ),
    "wire/number-out-of-range": (_PARSERS, ("CWE-190", "CWE-436")),
    "wire/unknown-value": (_PARSERS, ("CWE-436", "ONNX IR")),
    "structure/look-alike-name": (
        "A reviewer reads one name where a program reads another.",
        ("UTS 39", "CWE-1007", "CVE-2021-42694"),
    ),
    "external-data/aliased": (
        "A small file can stand for any amount of weights, and changing one tensor silently changes the others.",
        ("CWE-405",),
    ),
    "external-data/bad-checksum": (
        "A checksum that no tool can read protects nothing, while its author believes that it does.",
        ("CWE-354", "ONNX external data"),
    ),
    "external-data/checksum-mismatch": (
        "The weights are not those that the exporter wrote, and no runtime would notice.",
        ("CWE-354", "ONNX external data"),
    ),
    "external-data/overlap": (
        "Changing the bytes of one tensor changes the other one too, unnoticed.",
        ("CWE-436",),
    ),
    "external-data/sparse-file": (
        "A file of holes is a model of zeros, or a bomb for whoever copies it.",
        ("CWE-409",),
    ),
    "external-data/too-many-bytes": (_SIZE, ("CWE-770",)),
    "external-data/too-many-files": (_SIZE, ("CWE-770",)),
    "external-data/uncovered-bytes": (
        "Bytes that no tensor uses change nothing in the model, which makes them the place for a payload.",
        ("CWE-506", "arXiv:2107.08590"),
    ),
    "manifest/undeclared-model": (
        "A model that rides along under the release of another was never examined, and some loader will open it.",
        ("CWE-912",),
    ),
    "manifest/undeclared-file": (
        "What nobody declared nobody has looked at, and it would be released along.",
        ("CWE-912",),
    ),
}
