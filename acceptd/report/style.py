"""The style sheet of the HTML report, and the content policy that admits it and nothing else."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

CSS: Final = """
:root { color-scheme: light dark; --ink: #1a1d21; --soft: #565f69; --paper: #fff; --line: #dde1e6; --card: #f6f7f9;
  --shade: #b8bfc7;
  --link: #0b57a4;
  --accepted: #146c2e; --rejected: #b3261e; --held: #805000; --inconclusive: #6b3fa0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #a3adb8; --paper: #14171a; --line: #2d3339;
  --card: #1c2025; --shade: #555e69; --link: #8ab8f0;
  --accepted: #6fd08c; --rejected: #ff8a80; --held: #f0b95b; --inconclusive: #c3a1f0; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
header { border-left: .4rem solid var(--tone); padding: .25rem 0 .25rem 1.1rem; margin-bottom: 1.4rem; }
.accepted { --tone: var(--accepted); } .rejected { --tone: var(--rejected); }
.held { --tone: var(--held); } .inconclusive { --tone: var(--inconclusive); }
.verdict { color: var(--tone); font-weight: 700; letter-spacing: .06em; text-transform: uppercase; margin: 0; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .1rem 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .6rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
h3 { font-size: .95rem; margin: 1.2rem 0 .4rem; overflow-wrap: anywhere; }
p { margin: .25rem 0; overflow-wrap: anywhere; }
a { color: var(--link); } section { scroll-margin-top: 1rem; }
nav ul { list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: .1rem 1.1rem;
  font-size: .9rem; }
nav a { display: inline-block; padding: .3rem 0; }
.notice { margin-top: .5rem; } .notice.bad b { color: var(--held); }
.soft { color: var(--soft); } .right { text-align: right; font-variant-numeric: tabular-nums; }
code, .mono { font-family: ui-monospace, monospace; font-size: .87em; overflow-wrap: anywhere; }
pre { background: var(--card); border-radius: .25rem; margin: .4rem 0 .8rem; padding: .6rem .9rem;
  white-space: pre-wrap; }
.finding { background: var(--card); border-left: .25rem solid var(--tone); border-radius: .25rem; margin: .7rem 0;
  padding: .6rem .9rem; }
.finding h3 { margin: 0 0 .3rem; } .finding h3 code { font-weight: 600; }
.finding ul { margin: .4rem 0; padding-left: 1.1rem; } .finding li { margin: .25rem 0; overflow-wrap: anywhere; }
.reject { --tone: var(--rejected); } .hold, .warn { --tone: var(--held); } .info { --tone: var(--soft); }
.tag { color: var(--tone); font-weight: 700; margin-right: .6rem; }
.remedy { margin-top: .4rem; } .finding p b { font-weight: 600; color: var(--ink); }
.scroll { overflow-x: auto;  /* what is cut off throws a shadow */
  background: linear-gradient(90deg, var(--paper) 30%, transparent) 0 0 / 2.5rem 100% no-repeat local,
  linear-gradient(-90deg, var(--paper) 30%, transparent) 100% 0 / 2.5rem 100% no-repeat local,
  linear-gradient(90deg, var(--shade), transparent) 0 0 / .8rem 100% no-repeat scroll,
  linear-gradient(-90deg, var(--shade), transparent) 100% 0 / .8rem 100% no-repeat scroll; }
.scroll + .scroll { margin-top: 1.2rem; } h3 .soft { font-weight: 400; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th { text-align: left; font-weight: 600; color: var(--soft); } tbody th { font-weight: 400; color: var(--ink); }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: break-word; max-width: 26rem; }
:is(th, td):has(code) { overflow-wrap: anywhere; min-width: 8.6rem; }
table:has(th:nth-child(8)) :is(th, td):last-child { min-width: 11rem; }  /* not a letter a line */
.bad { color: var(--rejected); } td.bad, tbody th.bad { color: var(--rejected); font-weight: 600; }
.notice.bad { color: inherit; }
td.right, th.right { white-space: nowrap; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)); gap: 0 1.4rem; }
figure { margin: 1rem 0 0; break-inside: avoid; }
figcaption { color: var(--soft); font-size: .87rem; overflow-wrap: anywhere; } figcaption b { color: var(--ink); }
svg { display: block; width: 100%; height: 5rem; color: var(--tone); background: var(--card); }
.axis { display: flex; justify-content: space-between; color: var(--soft); font-size: .8rem;
  border-top: 1px solid var(--line); }
details { margin-top: .6rem; } summary { color: var(--soft); cursor: pointer; padding: .2rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.2rem; margin: 0; }
dt { color: var(--soft); overflow-wrap: anywhere; } dd { margin: 0; overflow-wrap: anywhere; min-width: 0; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
@media (max-width: 34rem) { main { padding: 1.2rem .9rem 3rem; } h1 { font-size: 1.35rem; }
  dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; }
  table:has(th:nth-child(5)) { width: 44rem; } table:has(th:nth-child(7)) { width: 62rem; } }
@page { size: A4; margin: 15mm; }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --paper: #fff; --line: #bbb; --card: #fff;
  --link: #000;
  --accepted: #0b5221; --rejected: #8c1d18; --held: #6b4000; --inconclusive: #4f2c7d; }
  body { font-size: 10pt; } main { max-width: none; padding: 0; } nav { display: none; }
  .scroll { overflow: visible; background: none; } table { width: 100% !important; font-size: 8.5pt; }
  th, td { min-width: 0 !important; padding-right: .4rem; }
  svg { print-color-adjust: exact; } h2 { margin-top: 1.6rem; }
  li, p, tr, dt, dd { break-inside: avoid; } h2, h3, summary { break-after: avoid; }
  details.findings::details-content { content-visibility: visible; block-size: auto; } }
"""

CONTENT_POLICY: Final = (
    "default-src 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
    + "'; base-uri 'none'; form-action 'none'"
)
"""No script, no image, no request: only this one style sheet, by its hash (CSP Level 3)."""
