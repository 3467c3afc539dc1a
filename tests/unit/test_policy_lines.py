"""Line numbers of TOML keys: the same keys as tomllib finds, each on the line where it is written."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acceptd.policy.lines import Place, line_of, locate

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*ROOT.glob("policies/**/*.toml"), *ROOT.glob("policies/**/*.example"), ROOT / "pyproject.toml"])
ODD = '''# [not.a.table]
a = 1 # b = 2
"quoted.key" = "c = 3 # no comment"
'literal "key"' = 'x'
site."google.com".x = 1
long = """
d = 4
[nor.this]
\\"""" # """
e = \'\'\'
[x]
y = 1\'\'\'\'\'
list = [ # first
  1, # ]
  "]", [ 2, "\\"]," ],
  { f = 1, g.h = [ 5,
     6 ] },
]
point = { x = 1, "y z" = { deep = true } }
[table] # [other]
key = 2026-11-29T15:00:00Z
[ spaced . "table two" ]
"\\u00e9" = nan
[[fruit]]
name = "apple"
[fruit.physical]
color = "red"
[[fruit.variety]]
name = "one"
[[fruit.variety]]
name = "two"
[[fruit]]
[[fruit.variety]]
name = "three"
[a1.b1]
[a1]
c1 = +inf
'''


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    if place:
        yield place
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*place, index))


@pytest.mark.parametrize(
    "text", [path.read_text(encoding="utf-8") for path in FILES] + [ODD, ODD.replace("\n", "\r\n"), "", "#", "a=1"]
)
def test_the_keys_are_those_that_tomllib_finds(text: str) -> None:
    assert set(locate(text)) == set(places(tomllib.loads(text)))


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_each_key_is_on_its_own_line(ending: str) -> None:
    text = ODD.replace("\n", ending)
    lines, rows = locate(text), ODD.split("\n")
    expected: dict[Place, str] = {
        ("a",): "a = 1 # b = 2",
        ("quoted.key",): '"quoted.key" = "c = 3 # no comment"',
        ("site", "google.com"): 'site."google.com".x = 1',
        ("long",): 'long = """',
        ("list", 1): '  "]", [ 2, "\\"]," ],',
        ("list", 2, 1): '  "]", [ 2, "\\"]," ],',
        ("list", 3, "g", "h", 1): "     6 ] },",
        ("point", "y z", "deep"): 'point = { x = 1, "y z" = { deep = true } }',
        ("table", "key"): "key = 2026-11-29T15:00:00Z",
        ("spaced", "table two", "\u00e9"): '"\\u00e9" = nan',
        ("fruit", 0, "variety", 1, "name"): 'name = "two"',
        ("fruit", 1, "variety", 0, "name"): 'name = "three"',
        ("a1", "c1"): "c1 = +inf",
    }
    assert {place: rows[lines[place] - 1] for place in expected} == expected


def test_what_is_not_there_stands_where_its_table_does() -> None:
    lines = locate("a = 1\n[b]\nc = 2\n")
    assert (line_of(lines, ("b", "missing", 3)), line_of(lines, ("x",)), line_of(lines, ())) == (2, 1, 1)


_KEY = st.one_of(st.text("abc-_1", min_size=1, max_size=4), st.text(max_size=4))
_LEAF = st.one_of(st.integers(-9, 9), st.booleans(), st.text(max_size=6))
_DOCUMENT = st.dictionaries(
    _KEY,
    st.recursive(
        _LEAF,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEY, inner, max_size=3)),
        max_leaves=8,
    ),
    max_size=5,
)


def _quoted(text: str) -> str:
    body = "".join(f"\\u{ord(char):04x}" if ord(char) < 32 or char in '"\\\x7f' else char for char in text)
    return f'"{body}"'


def _written(value: Any, draw: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        if draw(st.booleans()) and "'" not in value and value.isprintable():
            return draw(st.sampled_from([f"'{value}'", f"'''{value}'''"]))
        return draw(st.sampled_from([_quoted(value), f'""{_quoted(value)}""', f'"""\n{_quoted(value)[1:-1]}"""']))
    if isinstance(value, list):
        gap = draw(st.sampled_from(["", "\n", " # ] , \n"]))
        return f"[{gap}{','.join(f'{gap}{_written(one, draw)}{gap}' for one in value)}]"
    return "{" + ", ".join(f"{_quoted(key)} = {_written(one, draw)}" for key, one in value.items()) + "}"


@settings(max_examples=60, deadline=None)
@given(document=_DOCUMENT, data=st.data())
def test_any_document_in_any_style(document: dict[str, Any], data: st.DataObject) -> None:
    own = {key for key, value in document.items() if isinstance(value, dict) and data.draw(st.booleans())}
    text = "".join(
        f"{_quoted(key)} = {_written(document[key], data.draw)}\n" for key in document if key not in own
    )
    for key in own:
        text += f"[{_quoted(key)}] # comment\n\n"
        text += "".join(f"{_quoted(one)} = {_written(item, data.draw)}\n" for one, item in document[key].items())
    assert set(locate(text)) == set(places(tomllib.loads(text)))
