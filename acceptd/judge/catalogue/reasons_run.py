"""Why findings about goldens, sessions, runs, walls and limits matter: code to (reason, references)."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.reasons_files import Reasons

_UNTESTED: Final = "What no golden shows, nobody has seen: the model may compute anything there."
_NOT_JUDGED: Final = "What was not measured must never count as passed."
_TAKEN: Final = (
    "A job that breaks its rules may be under the model's control: nothing that it says can be believed."
)
_HUNGRY: Final = "In production it takes the memory, time or disk of everything beside it."
_SERVED: Final = "The loader holds answers to the accepted interface, so production would get errors."

TABLE: Final[Reasons] = {
    "vectors/duplicate-name": ("It is open which of the two values is fed or expected.", ("CWE-436",)),
    "vectors/empty-set": (_UNTESTED, ("arXiv:1708.06733",)),
    "vectors/gap": ("Values shift by one place, and the wrong ones are compared.", ("CWE-683",)),
    "vectors/input-shape": (_SERVED, ("CWE-1284",)),
    "vectors/insensitive": (
        "A model that gives one answer whatever it is asked passes every golden with that answer.",
        ("arXiv:1708.06733",),
    ),
    "vectors/missing": (_UNTESTED, ("arXiv:1708.06733",)),
    "vectors/none": (_UNTESTED, ("arXiv:1708.06733",)),
    "vectors/output-unchecked": (_UNTESTED, ("arXiv:1708.06733",)),
    "vectors/pattern-empty": (
        "Its author believes that goldens were tested which do not exist.",
        ("arXiv:1708.06733",),
    ),
    "vectors/self-made": (
        "Values that the runtime made itself repeat its mistakes: a wrong export agrees with itself.",
        ("CWE-345",),
    ),
    "vectors/smoke-only": (_UNTESTED, ("arXiv:1708.06733",)),
    "vectors/tolerance-invalid": (
        "An infinite tolerance accepts every output, and what NaN accepts depends on how the test is written.",
        ("CWE-1284",),
    ),
    "vectors/type-mismatch": (
        "Values are converted on the way, and the comparison hides what was lost.",
        ("CWE-1287",),
    ),
    "vectors/undecodable": (
        (
            "Golden files are a stranger's bytes too: what cannot be decoded cannot be compared, and may be "
            "an attack."
        ),
        ("CWE-1286",),
    ),
    "vectors/unpaired": (_UNTESTED, ("arXiv:1708.06733",)),
    "load/digest-mismatch": ("The bytes changed between seal and load.", ("CWE-354", "CWE-367")),
    "load/empty-model": ("There is nothing to load.", ("CWE-20",)),
    "load/failed": ("Production cannot load it either.", ("CWE-754",)),
    "load/invalid-model": (
        "Production refuses it as well, or another runtime reads it differently.",
        ("ONNX IR",),
    ),
    "load/locale-missing": (
        "Text is normalised by the host's locale: another host gives other answers.",
        ("CWE-176",),
    ),
    "load/options-refused": ("The model would run with other options than it was accepted with.", ("CWE-636",)),
    "load/order-invalid": ("Values cannot be told apart by name, so the wrong ones are fed.", ("CWE-436",)),
    "load/profile-bounds": (_HUNGRY, ("CWE-770",)),
    "load/provider-unavailable": (
        "Without the provider the answers, the speed and the memory are those of another target.",
        ("ORT execution providers",),
    ),
    "load/size-mismatch": ("The bytes changed between seal and load.", ("CWE-354", "CWE-367")),
    "load/unsupported-operator": (
        "The target's runtime lacks it, and production fails on the first request.",
        ("ORT reduced operators", "ONNX operators"),
    ),
    "run/crash": (
        (
            "Whatever kills a process that runs the model kills the production service; a crash is also how "
            "memory errors show."
        ),
        ("CWE-119", "CWE-369"),
    ),
    "run/failed": ("The model fails on inputs for which it was made.", ("CWE-754",)),
    "run/name-ignored": ("By position a value may reach another input than its author meant.", ("CWE-436",)),
    "run/output-dtype": (_SERVED, ("CWE-1287",)),
    "run/output-shape": (_SERVED, ("CWE-1284",)),
    "run/overridden-initializer": (
        "The golden tests the value that it brings along, not the released weight.",
        ("CWE-471",),
    ),
    "run/unexpected-case": (_TAKEN, ("CWE-345",)),
    "run/unexpressible-type": (_UNTESTED, ("ONNX IR",)),
    "run/unfed-input": (_UNTESTED, ("arXiv:1708.06733",)),
    "run/unknown-input": ("The golden was made for another model.", ("CWE-345",)),
    "parity/audio": (
        "A listener, or a recogniser behind it, hears what an element-wise tolerance lets through.",
        ("CWE-682",),
    ),
    "parity/boxes": (
        "A box that moved, vanished or changed its class is another answer, in whatever order the boxes come.",
        ("CWE-682",),
    ),
    "parity/class-changed": (
        "The released model decides differently from the one that was trained and evaluated.",
        ("CWE-682",),
    ),
    "parity/divergence": (
        "Thresholds and expected costs rest on the whole distribution, not on the first class alone.",
        ("CWE-682",),
    ),
    "parity/drift": ("Small errors in logits flip cases that lie near a threshold.", ("CWE-682",)),
    "parity/dtype": ("Comparing after a conversion would hide what the conversion lost.", ("CWE-1287",)),
    "parity/embedding": (
        "Search and matching see directions and neighbours: a model may keep every element near and turn both.",
        ("CWE-682",),
    ),
    "parity/kind": ("They cannot be compared, and callers would misread the answer.", ("CWE-843",)),
    "parity/malformed": (
        "What is not the tensor that it claims to be cannot be compared; in a run it can mean a taken-over job.",
        ("CWE-1286",),
    ),
    "parity/mismatch": (
        "Export, quantisation, conversion or an intruder changed what the model computes.",
        ("CWE-682", "arXiv:2210.00108"),
    ),
    "parity/not-probabilities": (
        "A threshold that was set for probabilities means nothing on such values.",
        ("CWE-682",),
    ),
    "parity/output-missing": (_UNTESTED, ("arXiv:1708.06733",)),
    "parity/sequence": (
        "One other token is another text, and a missing end runs until the limit.",
        ("CWE-682",),
    ),
    "parity/shape": ("They cannot be compared, and callers would misread the answer.", ("CWE-1284",)),
    "parity/tolerance-capped": (
        "Who sets the tolerance sets the result: a wide one accepts every model.",
        ("CWE-693",),
    ),
    "behaviour/nondeterministic": (
        "No answer can be reproduced after a complaint, and a golden that matches once proves little.",
        ("arXiv:2408.05148",),
    ),
    "behaviour/optimisation-class-change": (
        (
            "Which class wins depends on the optimiser, so a new runtime version changes decisions; compilers"
            " can also carry a backdoor."
        ),
        ("CWE-682", "arXiv:2210.00108"),
    ),
    "behaviour/optimisation-differs": (
        "Answers depend on how the runtime rewrites the graph, so a new version changes them.",
        ("arXiv:2210.00108",),
    ),
    "behaviour/output-count": (_SERVED, ("CWE-20",)),
    "behaviour/output-dtype": (_SERVED, ("CWE-1287",)),
    "behaviour/output-shape": (_SERVED, ("CWE-1284",)),
    "behaviour/probe-crash-outside": (
        "One odd request that passes the loader kills the service.",
        ("CWE-754", "CWE-119"),
    ),
    "behaviour/probe-error": ("The model fails on inputs for which it was declared.", ("CWE-754",)),
    "behaviour/probe-error-outside": (
        "Callers should know that the model does not take every input.",
        ("CWE-754",),
    ),
    "behaviour/probe-non-finite": (
        "Every comparison of NaN with a threshold is false, so the threshold decides nothing.",
        ("CWE-682",),
    ),
    "behaviour/probe-not-probabilities": (_SERVED, ("CWE-682",)),
    "behaviour/unoptimised-failed": (
        "It runs only as one optimiser rewrites it; another runtime may refuse it.",
        ("CWE-758",),
    ),
    "resources/cpu-limit": (
        "An endless loop, or an input made to be slow, stops a production service.",
        ("CWE-835", "CWE-834", "arXiv:2006.03463"),
    ),
    "resources/load-ceiling": (
        "A service that starts too slowly is down for too long after each restart.",
        ("CWE-400",),
    ),
    "resources/memory-ceiling": (_HUNGRY, ("CWE-770",)),
    "resources/memory-limit": (
        "A few bytes of graph allocate terabytes, and the host kills what runs beside it.",
        ("CWE-789",),
    ),
    "resources/other-limit": (_HUNGRY, ("CWE-770",)),
    "resources/output-limit": (_HUNGRY, ("CWE-789",)),
    "resources/run-ceiling": (
        "Answers that come too late are useless, and waiting callers pile up.",
        ("CWE-400", "arXiv:2006.03463"),
    ),
    "resources/size-ceiling": ("It does not fit the target that it was made for.", ("CWE-770",)),
    "resources/stderr-limit": ("Diagnostics without end fill the disk of the log.", ("CWE-770",)),
    "resources/thread-limit": (
        "Threads starve everything beside them; 500 were started by one model's metadata.",
        ("CWE-770",),
    ),
    "resources/wall-limit": ("A model that waits for ever stops whoever waits for it.", ("CWE-400",)),
    "sandbox/forbidden-call": (
        "A model computes; one that opens sockets or starts processes has taken over its process.",
        ("CWE-653", "CWE-506"),
    ),
    "sandbox/frame-too-large": (
        "A report without bounds would exhaust the memory of the daemon that reads it.",
        ("CWE-770",),
    ),
    "sandbox/job-crash": ("A file that crashes a reader may be the beginning of an attack on it.", ("CWE-119",)),
    "sandbox/job-error": (
        "A reader that stops at an error which nobody foresaw has not judged the file.",
        ("CWE-636",),
    ),
    "sandbox/protocol-violation": (_TAKEN, ("CWE-345", "CWE-653")),
    "sandbox/unknown-code": ("A code that has no meaning here would otherwise be passed over.", ("CWE-636",)),
    "cell/copy-lost": (_NOT_JUDGED, ("CWE-636",)),
    "cell/daemon-died": (
        "What kills the judge twice is set aside, or it would stop every other submission.",
        ("CWE-754",),
    ),
    "cell/deadline": (_NOT_JUDGED, ("CWE-636",)),
    "cell/evidence-refused": (
        "Evidence that nobody whom the policy trusts has signed for this order would let any machine decide.",
        ("CWE-345", "CWE-347"),
    ),
    "cell/job-retried": (
        "A busy host can make a model look as if it hangs, so a single loss is not held against it.",
        ("CWE-754",),
    ),
    "cell/lost": (_NOT_JUDGED, ("CWE-636",)),
    "cell/stage-missing": (_NOT_JUDGED, ("CWE-636",)),
    "cell/unavailable": ("Without the sandbox a model would run with the rights of the daemon.", ("CWE-653",)),
    "cell/wall-missing": (
        "A model that got through the missing wall could have written its own evidence.",
        ("CWE-653", "CWE-250"),
    ),
    "cell/workers-disagree": (
        "A choice between two words about the same bytes would let the one that lies be chosen.",
        ("CWE-345", "CWE-636"),
    ),
    "heldout/budget-spent": (
        "Each verdict on held-out vectors tells a bit of them; enough of them, and they are known.",
        ("CWE-799",),
    ),
    "heldout/failed": (
        "A model may fit the vectors that it came with and no others.",
        ("arXiv:1708.06733",),
    ),
    "heldout/not-evaluated": ("An evaluation is spent on what would be accepted otherwise.", ("CWE-799",)),
    "heldout/not-here": ("Whoever holds the vectors can fit a model to them.", ("CWE-200",)),
    "heldout/result": ("A reviewer decides on numbers; a team would fit its model to them.", ("CWE-200",)),
}
