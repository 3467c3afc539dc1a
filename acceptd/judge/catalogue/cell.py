"""Codes of the sandbox, its jobs and their limits."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.exporters import CHEAPER, DYNAMIC

TABLE: Final[Table] = {
    "cell/copy-lost": Code(
        "hold",
        "team",
        "The sealed copy was removed on the acceptor's side before it was judged.",
        "Submit again; the operator finds out what removed sealed/ under the running daemon.",
    ),
    "cell/daemon-died": Code(
        "hold",
        "team",
        "The daemon died or failed twice while it worked on this submission; it was set aside, not judged.",
        "Submit again; if it happens again, an operator looks into var/quarantine.",
    ),
    "cell/deadline": Code(
        "hold",
        "team",
        "The submission's deadline passed, before its turn came or while it was examined.",
        "Submit again, or ask the operator for more workers or a longer submission_seconds.",
    ),
    "cell/evidence-refused": Code(
        "hold",
        "reviewer",
        "What a worker handed over about this submission does not count: the reason is in the message.",
        "See to that worker and to `[[fleet.trust]]` of the policy, then let it be submitted again.",
    ),
    "cell/job-retried": Code(
        "info",
        "team",
        "A job was lost once and passed at the second attempt.",
        "Nothing to do.",
    ),
    "cell/lost": Code(
        "hold",
        "team",
        "A job was killed from outside, or waited without computing, twice.",
        "Submit again when the host is less busy; a model that sleeps or waits cannot be judged.",
    ),
    "cell/stage-missing": Code(
        "hold",
        "team",
        "A required stage has left no complete evidence, so the bundle could not be judged.",
        "Submit again; if it recurs, the operator looks into the daemon's log.",
    ),
    "cell/unavailable": Code(
        "hold",
        "team",
        "No sandbox was available for a job.",
        "The operator runs `acceptd doctor`.",
    ),
    "cell/wall-missing": Code(
        "hold",
        "team",
        "A wall of the sandbox that the policy requires did not stand, so nothing that was measured counts.",
        "The operator runs `acceptd doctor`, mends the wall and submits again; the model team has nothing to do.",
    ),
    "cell/withdrawn": Code(
        "hold",
        "team",
        "The drop was taken out of the inbox while it was examined.",
        "Leave a drop where it is until its verdict stands in the outbox; submit again.",
    ),
    "cell/workers-disagree": Code(
        "hold",
        "reviewer",
        "Workers say otherwise about the same bytes, and nobody can tell which of them is right.",
        "Compare those workers (versions, memory, who has access), then let it be submitted again.",
    ),
    "sandbox/forbidden-call": Code(
        "reject",
        "team",
        "A job made a system call that a model never needs, and was killed for it.",
        "Remove operators or payloads that reach outside the runtime.",
    ),
    "sandbox/frame-too-large": Code(
        "reject",
        "team",
        "The bundle holds more facts than a job may report (for example hundreds of thousands of distinct names).",
        "Split the model, or simplify its names.",
    ),
    "sandbox/job-crash": Code(
        "reject",
        "team",
        "A job died on a signal while it read the bundle.",
        "Find out which tool crashes on the file (onnx.load, onnx.checker, shape inference) and mend the model.",
    ),
    "sandbox/job-error": Code(
        "reject",
        "team",
        "A job ended with an unexpected error while it read the bundle.",
        "Check the file named in the place with onnx.checker; if it is sound, report it to the operator with "
        "the submission's id.",
    ),
    "sandbox/protocol-violation": Code(
        "reject",
        "team",
        "A job said something outside the closed set of messages, or contradicted what the trusted side knows.",
        "Remove whatever takes over the process that reads the model; ask a reviewer if you believe that "
        "there is nothing.",
    ),
    "sandbox/unknown-code": Code(
        "hold",
        "reviewer",
        "A job reported a finding code that this version does not know.",
        "A reviewer decides; the operator checks that all parts of acceptd have one version.",
    ),
    "resources/cpu-limit": Code(
        "reject",
        "team",
        "A job used more CPU time than the policy allows.",
        "Make the model cheaper to load and run (an endless Loop? a huge Tile or Range?), or ask the "
        "operator for a higher limit.",
    ),
    "resources/load-ceiling": Code(
        "reject",
        "team",
        "Loading the model took longer than the contract's ceiling.",
        "Make the model smaller or simpler (folded constants, fewer nodes), or agree on another ceiling "
        "with the acceptor.",
    ),
    "resources/memory-ceiling": Code(
        "reject",
        "team",
        "The model needed more memory than the contract's ceiling.",
        CHEAPER,
    ),
    "resources/memory-limit": Code(
        "reject",
        "team",
        "A job needed more memory than the policy allows.",
        f"Reduce what one run allocates (fixed sizes, large intermediate values; {DYNAMIC} leaves the batch "
        "to the caller), or ask the operator for a higher limit.",
    ),
    "resources/other-limit": Code(
        "reject",
        "team",
        "A job reached a limit that has no finding of its own.",
        "Look at the evidence in the report for what was reached; ask the operator, who sees the job's record.",
    ),
    "resources/output-limit": Code(
        "reject",
        "team",
        "A job produced more output bytes than the policy allows.",
        "Reduce the outputs, or use fewer or smaller golden sets.",
    ),
    "resources/run-ceiling": Code(
        "reject",
        "team",
        "One inference took longer than the contract's ceiling.",
        CHEAPER,
    ),
    "resources/size-ceiling": Code(
        "reject",
        "team",
        "The model with its external data is larger than the contract's ceiling.",
        "Make the model smaller (float16 or quantised weights, no unused initializers), or agree on another"
        " ceiling with the acceptor.",
    ),
    "resources/stderr-limit": Code(
        "reject",
        "team",
        "A job wrote more diagnostics than the policy allows.",
        "Remove what makes the runtime warn without end: `onnxruntime.InferenceSession` prints the same "
        "warnings where you are.",
    ),
    "resources/thread-limit": Code(
        "reject",
        "team",
        "A job tried to start more threads than the policy allows.",
        "Remove operators that start threads of their own; the profile sets the threads of a session.",
    ),
    "resources/wall-limit": Code(
        "reject",
        "team",
        "A job did not end within its wall-clock limit.",
        "Remove endless loops, sleeps and waits; ask the operator for a higher limit if the model is merely "
        "large.",
    ),
}
