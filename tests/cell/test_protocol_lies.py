"""A taken-over job can lie about its own frames and nothing else; each deviation is a violation."""

from __future__ import annotations

import pytest

from tests.cell.conftest import Attack

pytestmark = [pytest.mark.cell, pytest.mark.any_uid]


def frame(payload: str) -> str:
    """Return attacker code that writes one raw frame."""
    return f"p={payload}; os.write(3, b'J' + struct.pack('!I', len(p)) + p)"


LIES = {
    "a frame of another job's type": "channel.send('facts', {})",
    "walls again": "channel.send('walls', {'states': {'network': 'enforced'}})",
    "done twice": "channel.send('done', {}); channel.send('done', {})",
    "a note after done": "channel.send('done', {}); channel.send('note', {'facts': {}})",
    "an unknown type": "channel.send('verdict', {'verdict': 'accepted'})",
    "raw data nobody announced": "channel.data(b'x' * 10)",
    "a giant frame": "os.write(3, b'J' + struct.pack('!I', 1 << 31))",
    "not JSON": "os.write(3, b'J' + struct.pack('!I', 3) + b'{]}')",
    "NaN as a number": frame("b'{\"t\":\"note\",\"facts\":{\"a\":NaN}}'"),
    "a huge integer": frame("b'{\"t\":\"note\",\"facts\":{\"a\":99999999999999999999}}'"),
    "a lone surrogate": frame("b'{\"t\":\"note\",\"facts\":{\"a\":\"\\\\ud800\"}}'"),
    "deep JSON": frame("b'{\"t\":\"note\",\"facts\":{\"a\":' + b'['*5000 + b']'*5000 + b'}}'"),
    "a key twice": frame("b'{\"t\":\"note\",\"facts\":{},\"facts\":{}}'"),
    "half a frame, then the end": "os.write(3, b'J' + struct.pack('!I', 100) + b'{'); os._exit(0)",
    "an unknown key": "channel.send('done', {'verdict': 'accepted'})",
    "a wrong type": "channel.send('done', {'peak_rss_bytes': 'many'})",
    "the end of a job without a wall, which would be nobody's fault": "os._exit(97)",
    "the same after its last word": "channel.send('done', {}); os._exit(97)",
    "endless frames": "\nwhile True: channel.send('note', {'facts': {}})",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(LIES))
def test_the_lie_is_a_protocol_violation(name: str, attack: Attack) -> None:
    record = attack(LIES[name], cpu=20)
    assert record.ending == "violation", record
    assert attack("note(ok=True)").ending == "done"
