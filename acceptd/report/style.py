"""The style sheet of the HTML report, and the content policy that admits it and nothing else."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

CSS: Final = """
:root { color-scheme: light dark; --ink: #1a1d21; --soft: #5c6570; --paper: #fff; --line: #dde1e6; --card: #f6f7f9;
  --accepted: #146c2e; --rejected: #b3261e; --held: #8a5300; --inconclusive: #6b3fa0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #9aa4af; --paper: #14171a; --line: #2d3339;
  --card: #1c2025; --accepted: #6fd08c; --rejected: #ff8a80; --held: #f0b95b; --inconclusive: #c3a1f0; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
header { border-left: .4rem solid var(--tone); padding: .25rem 0 .25rem 1.1rem; margin-bottom: 2rem; }
.accepted { --tone: var(--accepted); } .rejected { --tone: var(--rejected); }
.held { --tone: var(--held); } .inconclusive { --tone: var(--inconclusive); }
.verdict { color: var(--tone); font-weight: 700; letter-spacing: .06em; text-transform: uppercase; margin: 0; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .1rem 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2.2rem 0 .6rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
h3 { font-size: .95rem; margin: 1.2rem 0 .4rem; overflow-wrap: anywhere; }
p { margin: .25rem 0; overflow-wrap: anywhere; }
.soft { color: var(--soft); } .right { text-align: right; font-variant-numeric: tabular-nums; }
code, .mono { font-family: ui-monospace, monospace; font-size: .87em; overflow-wrap: anywhere; }
.finding { background: var(--card); border-left: .25rem solid var(--tone); border-radius: .25rem; margin: .7rem 0;
  padding: .6rem .9rem; }
.reject { --tone: var(--rejected); } .hold, .warn { --tone: var(--held); } .info { --tone: var(--soft); }
.tag { color: var(--tone); font-weight: 600; margin-right: .6rem; }
.remedy { margin-top: .4rem; } .remedy b { font-weight: 600; }
.scroll { overflow-x: auto; } .scroll + .scroll { margin-top: 1.2rem; } h3 .soft { font-weight: 400; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th { text-align: left; font-weight: 600; color: var(--soft); }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: anywhere; min-width: 4.4rem; } td:has(code) { min-width: 8.6rem; } td.right { min-width: 0; }
td.bad { color: var(--rejected); font-weight: 600; }
td.right, th.right { white-space: nowrap; }
figure { margin: 1rem 0 0; } figcaption { color: var(--soft); font-size: .9rem; overflow-wrap: anywhere; }
svg { display: block; width: 100%; height: 4rem; color: var(--tone); background: var(--card); }
details { margin-top: .6rem; } summary { color: var(--soft); cursor: pointer; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.2rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 34rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; }
  table:has(th:nth-child(5)) { width: 44rem; } table:has(th:nth-child(7)) { width: 62rem; } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --paper: #fff; --line: #bbb; --card: #fff;
  --accepted: #0b5221; --rejected: #8c1d18; --held: #6b4000; --inconclusive: #4f2c7d; }
  main { max-width: none; padding: 0; } .finding, tr { break-inside: avoid; } h2, h3 { break-after: avoid; } }
"""

CONTENT_POLICY: Final = (
    "default-src 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
    + "'; base-uri 'none'; form-action 'none'"
)
"""No script, no image, no request: only this one style sheet, by its hash (CSP Level 3)."""
