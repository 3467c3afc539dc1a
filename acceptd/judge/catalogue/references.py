"""Public references that explain why a finding matters: standards, specifications, advisories, papers.

Only what exists and was looked up stands here. ``docs/findings.md``, ``policy explain`` and SARIF name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Reference:
    """``id`` is how people cite it (``CWE-22``, ``CVE-2022-25882``, ``RFC 3986``); ``url`` where it stands."""

    id: str
    title: str
    url: str


_CWE: Final = {
    20: "Improper Input Validation",
    22: "Improper Limitation of a Pathname to a Restricted Directory ('Path Traversal')",
    42: "Path Equivalence: 'filename.' (Trailing Dot)",
    59: "Improper Link Resolution Before File Access ('Link Following')",
    62: "UNIX Hard Link",
    66: "Improper Handling of File Names that Identify Virtual Resources",
    67: "Improper Handling of Windows Device Names",
    73: "External Control of File Name or Path",
    117: "Improper Output Neutralization for Logs",
    119: "Improper Restriction of Operations within the Bounds of a Memory Buffer",
    125: "Out-of-bounds Read",
    130: "Improper Handling of Length Parameter Inconsistency",
    150: "Improper Neutralization of Escape, Meta, or Control Sequences",
    158: "Improper Neutralization of Null Byte or NUL Character",
    176: "Improper Handling of Unicode Encoding",
    178: "Improper Handling of Case Sensitivity",
    190: "Integer Overflow or Wraparound",
    200: "Exposure of Sensitive Information to an Unauthorized Actor",
    222: "Truncation of Security-relevant Information",
    250: "Execution with Unnecessary Privileges",
    345: "Insufficient Verification of Data Authenticity",
    347: "Improper Verification of Cryptographic Signature",
    353: "Missing Support for Integrity Check",
    354: "Improper Validation of Integrity Check Value",
    367: "Time-of-check Time-of-use (TOCTOU) Race Condition",
    369: "Divide By Zero",
    400: "Uncontrolled Resource Consumption",
    405: "Asymmetric Resource Consumption (Amplification)",
    407: "Inefficient Algorithmic Complexity",
    409: "Improper Handling of Highly Compressed Data (Data Amplification)",
    427: "Uncontrolled Search Path Element",
    436: "Interpretation Conflict",
    471: "Modification of Assumed-Immutable Data (MAID)",
    494: "Download of Code Without Integrity Check",
    502: "Deserialization of Untrusted Data",
    506: "Embedded Malicious Code",
    636: "Not Failing Securely ('Failing Open')",
    653: "Improper Isolation or Compartmentalization",
    672: "Operation on a Resource after Expiration or Release",
    674: "Uncontrolled Recursion",
    682: "Incorrect Calculation",
    683: "Function Call With Incorrect Order of Arguments",
    693: "Protection Mechanism Failure",
    732: "Incorrect Permission Assignment for Critical Resource",
    754: "Improper Check for Unusual or Exceptional Conditions",
    758: "Reliance on Undefined, Unspecified, or Implementation-Defined Behavior",
    770: "Allocation of Resources Without Limits or Throttling",
    789: "Memory Allocation with Excessive Size Value",
    799: "Improper Control of Interaction Frequency",
    822: "Untrusted Pointer Dereference",
    834: "Excessive Iteration",
    835: "Loop with Unreachable Exit Condition ('Infinite Loop')",
    843: "Access of Resource Using Incompatible Type ('Type Confusion')",
    862: "Missing Authorization",
    912: "Hidden Functionality",
    918: "Server-Side Request Forgery (SSRF)",
    1007: "Insufficient Visual Distinction of Homoglyphs Presented to User",
    1284: "Improper Validation of Specified Quantity in Input",
    1285: "Improper Validation of Specified Index, Position, or Offset in Input",
    1286: "Improper Validation of Syntactic Correctness of Input",
    1287: "Improper Validation of Specified Type of Input",
    1357: "Reliance on Insufficiently Trustworthy Component",
    1395: "Dependency on Vulnerable Third-Party Component",
}
_CVE: Final = {
    "CVE-2007-4559": "Python tarfile: directory traversal on extraction",
    "CVE-2019-9674": "Python zipfile: denial of service by a zip bomb",
    "CVE-2021-42574": "Unicode bidirectional text hides what a reviewer reads (Trojan Source)",
    "CVE-2021-42694": "Unicode letters that look alike stand for other identifiers (Trojan Source)",
    "CVE-2022-25882": "onnx before 1.13: external data outside the model's directory",
    "CVE-2024-27318": "onnx before 1.16: external data outside the model's directory, past the first fix",
    "CVE-2025-4330": "Python tarfile: links that point outside the destination pass the extraction filter",
    "CVE-2025-51480": "onnx: saving a model writes external data outside the directory",
    "CVE-2026-27489": "onnx before 1.21: external data through a symbolic link in a parent directory",
    "CVE-2026-34445": "onnx before 1.21: keys of external data overwrite attributes of the reader",
    "CVE-2026-34446": "onnx before 1.21: external data through a hard link",
    "CVE-2026-34447": "onnx before 1.21: external data through a symbolic link",
}
_OTHER: Final = {
    "ONNX IR": ("Open Neural Network Exchange IR specification", "https://onnx.ai/onnx/repo-docs/IR.html"),
    "ONNX versioning": ("ONNX Versioning", "https://onnx.ai/onnx/repo-docs/Versioning.html"),
    "ONNX external data": ("ONNX External Data", "https://onnx.ai/onnx/repo-docs/ExternalData.html"),
    "ONNX operators": ("ONNX operators", "https://onnx.ai/onnx/operators/"),
    "ORT execution providers": (
        "ONNX Runtime Execution Providers",
        "https://onnxruntime.ai/docs/execution-providers/",
    ),
    "ORT EP context": (
        "ONNX Runtime EP context design",
        "https://onnxruntime.ai/docs/execution-providers/EP-Context-Design.html",
    ),
    "ORT graph optimisations": (
        "ONNX Runtime graph optimizations",
        "https://onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html",
    ),
    "ORT reduced operators": (
        "ONNX Runtime reduced operator config file",
        "https://onnxruntime.ai/docs/reference/operators/reduced-operator-config-file.html",
    ),
    "Protobuf encoding": (
        "Protocol Buffers: encoding of messages",
        "https://protobuf.dev/programming-guides/encoding/",
    ),
    "TOML 1.0": ("TOML v1.0.0", "https://toml.io/en/v1.0.0"),
    "RFC 3986": ("Uniform Resource Identifier (URI): Generic Syntax", "https://www.rfc-editor.org/rfc/rfc3986"),
    "RFC 3629": (
        "UTF-8, a transformation format of ISO 10646",
        "https://www.rfc-editor.org/rfc/rfc3629",
    ),
    "UAX 15": ("Unicode Normalization Forms", "https://www.unicode.org/reports/tr15/"),
    "UTS 39": ("Unicode Security Mechanisms", "https://www.unicode.org/reports/tr39/"),
    "Fifield 2019": ("A better zip bomb (USENIX WOOT 2019)", "https://www.bamsoftware.com/hacks/zipbomb/"),
    "arXiv:1706.04599": (
        "Guo et al.: On Calibration of Modern Neural Networks",
        "https://arxiv.org/abs/1706.04599",
    ),
    "arXiv:1708.06733": (
        "Gu et al.: BadNets: Identifying Vulnerabilities in the Machine Learning Model Supply Chain",
        "https://arxiv.org/abs/1708.06733",
    ),
    "arXiv:1810.03993": (
        "Mitchell et al.: Model Cards for Model Reporting",
        "https://arxiv.org/abs/1810.03993",
    ),
    "arXiv:2006.03463": (
        "Shumailov et al.: Sponge Examples: Energy-Latency Attacks on Neural Networks",
        "https://arxiv.org/abs/2006.03463",
    ),
    "arXiv:2107.08590": (
        "Wang et al.: EvilModel: Hiding Malware Inside of Neural Network Models",
        "https://arxiv.org/abs/2107.08590",
    ),
    "arXiv:2206.07840": (
        "Bober-Irizar et al.: Architectural Backdoors in Neural Networks",
        "https://arxiv.org/abs/2206.07840",
    ),
    "arXiv:2210.00108": (
        "Clifford et al.: ImpNet: Imperceptible and blackbox-undetectable backdoors in compiled neural networks",
        "https://arxiv.org/abs/2210.00108",
    ),
    "arXiv:2408.05148": (
        (
            "Shanmugavelu et al.: Impacts of floating-point non-associativity on reproducibility for HPC "
            "and deep learning applications"
        ),
        "https://arxiv.org/abs/2408.05148",
    ),
    "arXiv:2511.00664": (
        "Schulz et al.: ShadowLogic: Backdoors in Any Whitebox LLM",
        "https://arxiv.org/abs/2511.00664",
    ),
}

REFERENCES: Final[Mapping[str, Reference]] = MappingProxyType(
    {
        f"CWE-{number}": Reference(f"CWE-{number}", title, f"https://cwe.mitre.org/data/definitions/{number}.html")
        for number, title in _CWE.items()
    }
    | {name: Reference(name, title, f"https://nvd.nist.gov/vuln/detail/{name}") for name, title in _CVE.items()}
    | {name: Reference(name, title, url) for name, (title, url) in _OTHER.items()}
)
"""By id."""
