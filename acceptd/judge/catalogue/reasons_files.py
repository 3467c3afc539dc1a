"""Why findings about files, archives, bundle.toml, policy and contract matter: code to (reason, references)."""

from __future__ import annotations

from typing import Final

Reasons = dict[str, tuple[str, tuple[str, ...]]]

_LIMIT: Final = "A drop without bounds fills the disk or keeps the sealer busy, and every other team waits."
_TWO_NAMES: Final = (
    "Where two systems read one name differently, the file that was judged is not the file that is opened."
)

TABLE: Final[Reasons] = {
    "seal/bundle-too-large": (_LIMIT, ("CWE-770",)),
    "seal/changed-while-read": (
        "Whoever swaps a file between check and use gets one file judged and another one released.",
        ("CWE-367",),
    ),
    "seal/deadline": (
        (
            "A file system that answers slowly or never (FUSE, a network mount) would stop the intake of "
            "every team."
        ),
        ("CWE-400",),
    ),
    "seal/drop-name": (
        "The name goes into paths, logs and screens; there it could lead elsewhere or forge a line.",
        ("CWE-73", "CWE-117"),
    ),
    "seal/empty": ("An empty bundle would be released as a model that was never looked at.", ("CWE-20",)),
    "seal/file-too-large": (_LIMIT, ("CWE-770",)),
    "seal/hard-link": (
        (
            "Through its second name the file can be changed after the check, or a file of somebody else is "
            "read: onnx missed exactly that."
        ),
        ("CWE-62", "CVE-2026-34446"),
    ),
    "seal/name-backslash": (_TWO_NAMES, ("CWE-22",)),
    "seal/name-collision": (_TWO_NAMES, ("CWE-178",)),
    "seal/name-control": (
        (
            "Such a name reads differently from what it is, drives the reviewer's terminal or forges a line "
            "of a log."
        ),
        ("CWE-150", "CVE-2021-42574"),
    ),
    "seal/name-encoding": (_TWO_NAMES, ("CWE-176", "RFC 3629")),
    "seal/name-not-normalised": (_TWO_NAMES, ("CWE-176", "UAX 15")),
    "seal/name-reserved": (_TWO_NAMES, ("CWE-67", "CWE-42")),
    "seal/name-too-long": (
        "Some systems cut or refuse long paths, so a file goes missing unnoticed.",
        ("CWE-436",),
    ),
    "seal/native-library": (
        "A library beside a model is one wrong option, or one search path, away from running in production.",
        ("CWE-427", "CWE-1357"),
    ),
    "seal/not-a-bundle": (
        "A reader would have to guess what a file of no known kind is, and the sender can steer the guess.",
        ("CWE-20",),
    ),
    "seal/not-a-file": (
        "Opening a FIFO blocks for ever, a device has side effects, a socket leads to another process.",
        ("CWE-66", "CWE-400"),
    ),
    "seal/other-filesystem": (
        "Behind a mount lie files of the host, or a server that hangs every read.",
        ("CWE-59", "CWE-400"),
    ),
    "seal/path-escape": ("A path that leaves the bundle reads or overwrites files of the host.", ("CWE-22",)),
    "seal/sparse-file": (
        "A file of holes costs its maker nothing and the copier all its disk and time.",
        ("CWE-409", "CWE-400"),
    ),
    "seal/symlink": (
        "A link leads to any file that the daemon may read, or to another one after the check.",
        ("CWE-59", "CVE-2026-34447"),
    ),
    "seal/too-deep": (_LIMIT, ("CWE-770",)),
    "seal/too-many-files": (_LIMIT, ("CWE-770",)),
    "seal/unreadable": (
        "What cannot be read cannot be judged, and production would miss it as well.",
        ("CWE-636",),
    ),
    "seal/vanished": ("A half-copied or withdrawn drop is not what its team meant to release.", ("CWE-367",)),
    "archive/bomb": (
        "A few kilobytes unpack to terabytes, and the disk or the memory of the host is gone.",
        ("CWE-409", "Fifield 2019", "CVE-2019-9674"),
    ),
    "archive/duplicate-entry": (
        (
            "One reader takes the first of two members, another the last: the one that was checked need not "
            "be the one that is used."
        ),
        ("CWE-436",),
    ),
    "archive/empty": ("An empty archive would be released as a model that was never looked at.", ("CWE-20",)),
    "archive/encrypted": ("What cannot be read cannot be judged.", ("CWE-636",)),
    "archive/link": (
        "A later member can be written through the link, to a place outside the bundle.",
        ("CWE-59", "CVE-2025-4330"),
    ),
    "archive/malformed": (
        "Readers repair broken archives in different ways, so they see different files.",
        ("CWE-436", "CWE-1286"),
    ),
    "archive/method": (
        "Rare decompressors are rarely tested, and each is native code that reads a stranger's bytes.",
        ("CWE-20",),
    ),
    "archive/path-escape": (
        "A member that leaves the bundle overwrites files of the host on unpacking.",
        ("CWE-22", "CVE-2007-4559"),
    ),
    "archive/ratio": (
        "An archive that grows by so much is a bomb, or hides how large it is.",
        ("CWE-409", "Fifield 2019"),
    ),
    "archive/size-lies": (
        "A reader that trusts the stated size reserves too little, or stops before the part that matters.",
        ("CWE-130",),
    ),
    "archive/size-mismatch": (
        "Where headers disagree, readers that trust different ones see different files.",
        ("CWE-130", "CWE-436"),
    ),
    "archive/special": (
        "Unpacking a device or a FIFO blocks the reader or reaches the host; a sparse member can be a bomb.",
        ("CWE-66", "CWE-409"),
    ),
    "archive/too-large": (_LIMIT, ("CWE-409", "CWE-770")),
    "archive/too-many-entries": (_LIMIT, ("CWE-770",)),
    "archive/trailing-data": (
        "Bytes that belong to no member hide a payload, or a second archive that another reader opens.",
        ("CWE-436", "CWE-506"),
    ),
    "archive/truncated": ("A part is missing: what would be judged is not what was packed.", ("CWE-130",)),
    "manifest/datetime": (
        "JSON has no such type, so two readers would turn it into different texts.",
        ("TOML 1.0",),
    ),
    "manifest/file-missing": ("The release would name a model that production cannot open.", ("CWE-20",)),
    "manifest/inferred": (
        (
            "What the model itself says of its interface is no promise: a wrong model describes itself just "
            "as well."
        ),
        ("CWE-345",),
    ),
    "manifest/invalid": (
        "A key that is misspelt or of a wrong type says nothing, while its author believes that it does.",
        ("CWE-20",),
    ),
    "manifest/invalid-range": ("No input lies in such a range, so nothing would be tested.", ("CWE-1284",)),
    "manifest/labels-width": ("A missing label, or one too many, shifts what the answers mean.", ("CWE-436",)),
    "manifest/lock-mismatch": (
        "The bytes are not those that the team locked: changed on the way, or by a stranger.",
        ("CWE-354",),
    ),
    "manifest/lock-missing-file": ("A locked file was lost or taken out on the way.", ("CWE-354",)),
    "manifest/missing": ("Without it nobody has said what the model is, takes and returns.", ("CWE-345",)),
    "manifest/no-model": ("There is nothing to judge.", ("CWE-20",)),
    "manifest/not-in-lock": ("Somebody added a file after the team had locked the bundle.", ("CWE-353",)),
    "manifest/not-toml": ("A file that parsers read differently can say two things.", ("TOML 1.0",)),
    "manifest/not-utf8": ("Readers that guess the encoding read different text.", ("TOML 1.0", "RFC 3629")),
    "manifest/number-out-of-range": ("Readers wrap, round or refuse such a number.", ("CWE-190",)),
    "manifest/reserved-version": (
        "A written manifest that passes for an inferred one escapes the rules for written ones.",
        ("CWE-345",),
    ),
    "manifest/team-mismatch": ("One team could replace the production model of another.", ("CWE-862",)),
    "manifest/text-too-long": (
        "Long keys made a TOML parser run for seconds; long text floods reports.",
        ("CWE-400",),
    ),
    "manifest/too-deep": ("Deep nesting exhausts the stack of a recursive parser.", ("CWE-674",)),
    "manifest/too-large": (
        "A manifest of megabytes is an attack on its parser, not a description.",
        ("CWE-400",),
    ),
    "manifest/vectors-overlap": (
        "A model that is also a golden vector could read the answers that it is tested with.",
        ("CWE-200",),
    ),
    "policy/override-ignored": (
        "A finding about a taken-over job or a false identity must not be switched off by one line.",
        ("CWE-693",),
    ),
    "policy/unknown-code": (
        "A misspelt code leaves a rule without effect, while its author believes that it holds.",
        ("CWE-693",),
    ),
    "contract/missing": (
        "Without the acceptor's own statement a bundle is measured only by its submitter's word.",
        ("CWE-345",),
    ),
    "contract/model-missing": ("Production would ask for a model that is not there.", ("CWE-20",)),
    "contract/model-unexpected": ("A model that nobody agreed on would be released along.", ("CWE-912",)),
    "contract/none": ("The submitter alone says what the model is measured by.", ("CWE-345",)),
    "contract/refused": (
        (
            "A contract that cannot be read or that others may write must not count as none: deleting it "
            "would then free the model."
        ),
        ("CWE-732",),
    ),
    "contract/wrong-id": ("The bundle would be measured by the contract of another model.", ("CWE-345",)),
}
