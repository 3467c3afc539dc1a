"""JSON out of a job: what is walked only where a rule could be broken is still refused wherever one is."""

from __future__ import annotations

import json

import pytest

from acceptd.cell.protocol import MAX_DEPTH, parse_json
from acceptd.errors import ProtocolViolationError

LONE = chr(92) + "ud800"
PAIR = chr(92) + "ud83d" + chr(92) + "ude00"


def nested(depth: int, empty: str = "[]") -> bytes:
    """Return an object in which values lie ``depth`` deep, the object itself being the first."""
    return ('{"a":' * (depth - 2) + '{"a":' + empty + "}" + "}" * (depth - 2)).encode()


@pytest.mark.parametrize("more", ["", f',"b":"{PAIR}"'])
@pytest.mark.parametrize(("innermost", "own"), [("[]", 0), ("{}", 0), ("[1]", 1), ('{"a":1}', 1), ("1", 0)])
def test_depth_is_held_to_the_level_whichever_way_it_is_counted(innermost: str, own: int, more: str) -> None:
    def frame(depth: int) -> bytes:
        return nested(depth, innermost).removesuffix(b"}") + more.encode() + b"}"

    assert parse_json(frame(MAX_DEPTH - own))
    with pytest.raises(ProtocolViolationError, match="deeper"):
        parse_json(frame(MAX_DEPTH - own + 1))


def test_many_brackets_side_by_side_are_no_depth() -> None:
    rows = [[] for _ in range(1000)]
    assert parse_json(json.dumps({"a": rows}).encode()) == {"a": rows}


@pytest.mark.parametrize(
    "text",
    [
        f'{{"a":"{LONE}"}}',
        f'{{"{LONE}":1}}',
        f'{{"a":["{LONE.upper().replace("U", "u", 1)}"]}}',
        f'{{"a":{{"b":"x{chr(92)}udFFFx"}}}}',
    ],
)
def test_a_lone_surrogate_is_refused_in_keys_and_values(text: str) -> None:
    with pytest.raises(ProtocolViolationError, match="surrogate"):
        parse_json(text.encode())


def test_pairs_and_spelled_out_escapes_are_text() -> None:
    assert parse_json(f'{{"a":"{PAIR}"}}'.encode()) == {"a": "\U0001f600"}
    assert parse_json(f'{{"a":"{chr(92)}{LONE}"}}'.encode()) == {"a": LONE}
    with pytest.raises(ProtocolViolationError, match="not JSON"):
        parse_json(b'{"a":"\xed\xa0\x80"}')
