"""Sample reports out of a running daemon and local checks, and pictures of each: three widths, two schemes, paper.

Run by ``make pictures``; everything goes below ``.cache/pictures``. ``--readme`` also writes the one picture that
the README shows, smaller where pngquant is there. Needs Chromium, and pdftoppm for the paper (Debian: chromium,
poppler-utils).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args

from examples import evidence_classifier as classifier
from examples.demo import OTHER_BIAS
from examples.hostile_bundles import BY_NAME
from tools.browser import Browser, Scheme

ROOT: Final = Path(__file__).resolve().parent.parent
WIDTHS: Final = (360, 768, 1280)
README: Final = ROOT / "docs" / "images" / "report.png"
HOSTILE_NAME: Final = 'a\x1b[2J\u202egnp.exe\u2066<img src=x onerror="alert(1)">\u200b' + "wide" * 40
PATIENCE_SECONDS: Final = 300.0
POLICY: Final = """
schema = 1
name = "samples"
profiles = ["cpu"]
optional_profiles = ["cpu-plain"]
[limits]
run_cpu_seconds = 4
wall_factor = 12
"""
PROFILE: Final = 'schema = 1\nname = "cpu-plain"\noptimisation = "disable"\n'


class House:
    """A state directory with a daemon of its own, and the reports that come out of it."""

    def __init__(self, place: Path) -> None:
        self.place, self.state, self.pages = place, place / "state", place / "html"
        for folder in (self.state, place / "drops", place / "policies"):
            shutil.rmtree(folder, ignore_errors=True)
        self.pages.mkdir(parents=True, exist_ok=True)
        shutil.copytree(ROOT / "policies", place / "policies")
        (place / "policies" / "samples.toml").write_text(POLICY)
        (place / "policies" / "profiles" / "cpu-plain.toml").write_text(PROFILE)
        self.environment = {**os.environ, "ACCEPTD_STATE": str(self.state), "ORT_DISABLE_TELEMETRY": "1"}
        self.environment["ACCEPTD_POLICIES"] = str(place / "policies")
        self.acceptd("init", "--team", "mosaic", "--team", "swiss")

    def acceptd(self, *words: str, expected: tuple[int, ...] = (0,)) -> str:
        """Run one command; return what it printed. Raises SystemExit where it ends otherwise than expected."""
        done = subprocess.run(
            [sys.executable, "-m", "acceptd", *words], cwd=ROOT, env=self.environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if done.returncode not in expected:
            raise SystemExit(f"acceptd {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def daemon(self, policy: str) -> subprocess.Popen[bytes]:
        """Start a daemon."""
        with (self.place / "daemon.log").open("ab") as log:
            command = [sys.executable, "-m", "acceptd", "daemon", "--policy", policy]
            return subprocess.Popen(command, cwd=ROOT, env=self.environment, stderr=log, stdout=log)

    def submitted(self, name: str, write: Callable[[Path], Path]) -> None:
        """Submit what ``write`` makes, and keep the report as a page of this name."""
        made = write(self.place / "drops" / name)
        self.acceptd("submit", str(made), "--wait", "--team", "mosaic", expected=(0, 1, 3, 4))
        self.acceptd("report", "--html", str(self.pages / f"{name}.html"))

    def checked(self, name: str, path: Path, *words: str) -> dict[str, Any]:
        """Judge without a daemon; keep the page, and return the report."""
        page = self.pages / f"{name}.html"
        text = self.acceptd("check", str(path), "--json", "--html", str(page), *words, expected=(0, 1, 3, 4))
        found: dict[str, Any] = json.loads(text)
        return found


def wrong(path: Path) -> Path:
    """Write a bundle whose model is not the one that its goldens were computed from."""
    made = classifier.write_bundle(path, version="1.6.0", sets=40)
    (made / "model.onnx").write_bytes(classifier.build_model(classifier.Variant(bias=(0.0, 0.0, 0.0))))
    return made


def named(path: Path) -> Path:
    """Write a bundle whose names are an attack on whoever reads them."""
    variant = classifier.Variant(input_name=HOSTILE_NAME, output_name=f"{HOSTILE_NAME}</title><script>")
    return classifier.write_bundle(path, version="1.7.0", variant=variant)


def inferred(path: Path) -> Path:
    """Write a bundle without a manifest."""
    made = classifier.write_bundle(path)
    (made / "bundle.toml").unlink()
    return made


def samples(house: House) -> None:
    """Make every sample report."""
    daemon = house.daemon("samples")
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while b'"event": "ready"' not in (house.place / "daemon.log").read_bytes():
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the daemon did not start: see {house.place / 'daemon.log'}")
            time.sleep(0.05)
        house.submitted("accepted-first", lambda path: classifier.write_bundle(path, version="1.4.0"))
        house.submitted(
            "accepted", lambda path: classifier.write_bundle(path, version="1.5.0", bias=(-1.0, 0.49, 0.0))
        )
        house.submitted("rejected-parity", wrong)
        house.submitted("held-hostile", named)
        house.submitted("rejected-wire", BY_NAME["external-parent"].write)
        house.submitted("held", inferred)
        bundle = classifier.write_bundle(house.place / "drops" / "checked")
        house.checked("checked", bundle)
        house.checked("inconclusive", bundle, "--set", 'required_walls=["memory_cgroup"]')
        house.acceptd("release", "freeze", classifier.MODEL_ID, "--reason", "the end of the quarter")
        house.submitted(
            "not-promoted", lambda path: classifier.write_bundle(path, version="1.8.0", bias=OTHER_BIAS)
        )
    finally:
        daemon.terminate()
        daemon.wait(60)


def main() -> int:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", nargs="?", type=Path, default=ROOT / ".cache" / "pictures")
    parser.add_argument("--readme", action="store_true", help="write docs/images/report.png too")
    parser.add_argument("--again", action="store_true", help="draw the pages that are there, and judge nothing")
    given = parser.parse_args()
    place = given.place.absolute()
    if not given.again:
        samples(House(place))
    folder = place / "png"
    folder.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        for page in sorted((place / "html").glob("*.html")):
            for width in WIDTHS:
                for scheme in get_args(Scheme):
                    browser.open(page, width=width, scheme=scheme)
                    (folder / f"{page.stem}-{width}-{scheme}.png").write_bytes(browser.picture())
                    if over := browser.overflow():
                        print(f"{page.stem} at {width}: {over} pixels wider than the window")
            browser.open(page, media="print")
            paper = folder / f"{page.stem}.pdf"
            paper.write_bytes(browser.paper())
            subprocess.run(["pdftoppm", "-r", "60", "-png", str(paper), str(folder / page.stem)], check=True)
            print(f"{page.stem}: pictures in {folder}")
        if given.readme:
            README.parent.mkdir(parents=True, exist_ok=True)
            browser.open(place / "html" / "rejected-parity.html", width=880)
            README.write_bytes(browser.picture(clip=(880, 905)))
            if smaller := shutil.which("pngquant"):
                subprocess.run([smaller, "--force", "--output", str(README), "64", str(README)], check=True)
            print(f"{README}: {README.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
