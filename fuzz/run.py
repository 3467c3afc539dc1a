"""Run one target under atheris: ``python -m fuzz.run wire --seconds 30``. Ends with 77 on a finding.

The seeds in ``fuzz/corpus/<target>`` are read, never written; what covers more code goes to
``.cache/fuzz/<target>/corpus`` and is read again the next time. An input that breaks a promise, takes
more than 10 s or 2 GiB stands in ``.cache/fuzz/<target>/findings`` afterwards, for a test.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent
TARGETS: Final = {"wire": 1 << 16, "manifest": 1 << 14}
"""Target to the longest input: with longer ones there are few a second."""


def main() -> None:
    """Parse the command line, instrument, fuzz. Never returns: libFuzzer ends the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    options = parser.parse_args()
    import atheris

    with atheris.instrument_imports(include=["sandbox", "acceptd.policy", "tomllib"]):
        check = _target(options.target)
    work = ROOT.parent / ".cache/fuzz" / options.target
    grown, findings = work / "corpus", work / "findings"
    for directory in (grown, findings):
        directory.mkdir(parents=True, exist_ok=True)
    arguments = [
        sys.argv[0],
        str(grown),
        str(ROOT / "corpus" / options.target),
        f"-max_total_time={options.seconds}",
        f"-max_len={TARGETS[options.target]}",
        f"-artifact_prefix={findings}/",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        f"-seed={options.seed}",
    ]
    atheris.Setup(arguments, check)
    atheris.Fuzz()


def _target(name: str) -> Any:
    if name == "wire":
        from fuzz.wire import check
    else:
        from fuzz.manifest import check
    return check


if __name__ == "__main__":
    main()
