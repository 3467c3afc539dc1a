"""A good bundle and a small hostile set; ``python -m tools.gen_selftest`` wrote it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Shipped:
    """One bundle. ``codes``: one of them must be among the findings; none where it must be accepted."""

    name: str
    codes: tuple[str, ...]
    files: dict[str, str]
    """Path inside the bundle to a name in :data:`CONTENT`."""


def write(bundle: Shipped, directory: Path) -> Path:
    """Write ``bundle`` below ``directory``; return its place."""
    place = directory / bundle.name
    for path, content in bundle.files.items():
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(CONTENT[content]))
    return place


CONTENT: Final[dict[str, str]] = {
    "f0": (
        "c2NoZW1hID0gMQoKW2J1bmRsZV0KaWQgPSAibW9zYWljL2V2aWRlbmNlLWRpc3Bvc2l0aW9uIgp2ZXJzaW9uID0gIjEuNC4wIgps"
        "aWNlbnNlID0gIkFwYWNoZS0yLjAiCnB1cnBvc2UgPSAicm91dGVzIGV2aWRlbmNlIHRvIGFjY2VwdCwgcmV2aWV3IG9yIHJlamVj"
        "dCIKcHJvaGliaXRlZF91c2VzID0gWyJhdXRvbWF0ZWQgZGVuaWFsIHdpdGhvdXQgcmV2aWV3Il0KCltkaW1zXQpiYXRjaCA9IHsg"
        "bWluID0gMSwgbWF4ID0gMzIgfQoKW1ttb2RlbHNdXQpuYW1lID0gIm1haW4iCmZpbGUgPSAibW9kZWwub25ueCIKaXJfdmVyc2lv"
        "biA9IDgKb3BzZXRzID0geyAiYWkub25ueCIgPSAxMyB9CgpbW21vZGVscy5pbnB1dHNdXQpuYW1lID0gImZlYXR1cmVzIgpkdHlw"
        "ZSA9ICJmbG9hdDMyIgpzaGFwZSA9IFsiYmF0Y2giLCA0XQpyYW5nZSA9IFswLjAsIDEuMF0KCltbbW9kZWxzLm91dHB1dHNdXQpu"
        "YW1lID0gInByb2JhYmlsaXRpZXMiCmR0eXBlID0gImZsb2F0MzIiCnNoYXBlID0gWyJiYXRjaCIsIDNdCmtpbmQgPSAicHJvYmFi"
        "aWxpdGllcyIKbGFiZWxzID0gWyJhY2NlcHQiLCAicmV2aWV3IiwgInJlamVjdCJdCnRvbGVyYW5jZSA9IHsgcnRvbCA9IDAuMCwg"
        "YXRvbCA9IDFlLTA2LCB0b3AxID0gMS4wIH0KCltbbW9kZWxzLnZlY3RvcnNdXQpzZXRzID0gWyJ0ZXN0X2RhdGFfc2V0XyoiXQpv"
        "cmlnaW4gPSAiZmxvYXQ2NCBudW1weSBvcmFjbGUiCgpbcHJlcHJvY2Vzc2luZ10KdmVyc2lvbiA9ICIzIgpzaGEyNTYgPSAiNDE1"
        "ZGE4ZTVmOGMwMDEzMjAwMWFhY2I1NmNjOWI1OTdjYWE4NWJiZmIxMjliNjgzN2RmNTQ3N2UyODg1NGY1MCIKCltsYWJlbHNdCnNj"
        "aGVtYV92ZXJzaW9uID0gIjIiCgpbZXhwb3J0XQpmcmFtZXdvcmsgPSAibnVtcHkgMi40LjYiCmV4cG9ydGVyID0geyBuYW1lID0g"
        "Im9ubnguaGVscGVyIiwgdmVyc2lvbiA9ICIxLjIzLjIiIH0KY2hlY2twb2ludCA9IHsgc2hhMjU2ID0gIjMyODg3ZGJmMzFmNjc2"
        "MjEyNGM1ZDFiNTUzNTc2ODIwOTM0NjE5NjY0MzkwNTkxM2Y5NmYzYjAwNTRkMWJjZTUiIH0KY29kZV9yZXZpc2lvbiA9ICJleGFt"
        "cGxlcy9ldmlkZW5jZV9jbGFzc2lmaWVyLnB5IgpwYXJpdHkgPSB7IGNvbXBhcmVkID0gImEgZmxvYXQ2NCBudW1weSBvcmFjbGUg"
        "d2l0aCB0aGUgT05OWCBmaWxlIGluIG9ubnhydW50aW1lLCBhdCB0aGUgcHVibGlzaGVkIHBvaW50cyIsIHJlc3VsdCA9ICJwYXNz"
        "ZWQiLCBydG9sID0gMC4wLCBhdG9sID0gMWUtMDYsIHNhbXBsZXMgPSA1IH0KdGVzdGVkX2hhcmR3YXJlID0gWyJ4ODYtNjQgQ1BV"
        "Il0KcmVkaXN0cmlidXRpb24gPSAicGVybWl0dGVkIHVuZGVyIHRoZSBsaWNlbmNlIG9mIHRoZSBidW5kbGUiCmxheWVycyA9IDIK"
        "CltbZXhwb3J0LmRhdGFzZXRfbGluZWFnZV1dCm5hbWUgPSAibm9uZTogdGhlIHdlaWdodHMgYXJlIHdyaXR0ZW4gYnkgaGFuZCIK"
        "CltbZXhwb3J0LnF1YWxpdHldXQptZXRyaWMgPSAicHVibGlzaGVkIHBvaW50cyByZXByb2R1Y2VkIgp2YWx1ZSA9IDEuMApkYXRh"
        "c2V0ID0gInB1Ymxpc2hlZCBwb2ludHMiCg=="
    ),
    "f1": (
        "CAg6qgIKJAoIZmVhdHVyZXMKBndlaWdodBIId2VpZ2h0ZWQiBk1hdE11bAodCgh3ZWlnaHRlZAoEYmlhcxIGbG9naXRzIgNBZGQK"
        "NgoGbG9naXRzEg1wcm9iYWJpbGl0aWVzIgdTb2Z0bWF4KhQKBGF4aXMY////////////AaABAhIIZXZpZGVuY2UqQAgECAMQAUIG"
        "d2VpZ2h0SjAAAMA/AAAAAAAAgMAAAMA/AAAAAAAAgL8AACBAAAAAAAAAAL8AAIC/AAAAPwAAkEAqGAgDEAFCBGJpYXNKDAAAgL8A"
        "AAA/AAAAAFofCghmZWF0dXJlcxITChEIARINCgcSBWJhdGNoCgIIBGIkCg1wcm9iYWJpbGl0aWVzEhMKEQgBEg0KBxIFYmF0Y2gK"
        "AggDQgQKABAN"
    ),
    "f2": ("CAEIBBABQghmZWF0dXJlc0oQZmZmP83MTD8AAEA/zczMPQ=="),
    "f3": ("CAEIAxABQg1wcm9iYWJpbGl0aWVzSgwN3nA/jElwPbTU6jk="),
    "f4": ("CAEIBBABQghmZWF0dXJlc0oQzczMPc3MTD4AAAAAZmZmPw=="),
    "f5": ("CAEIAxABQg1wcm9iYWJpbGl0aWVzSgxV9d87tkuaPZ/2aj8="),
    "f6": (
        "c2NoZW1hID0gMQoKW2J1bmRsZV0KaWQgPSAibW9zYWljL2V2aWRlbmNlLWRpc3Bvc2l0aW9uIgp2ZXJzaW9uID0gIjEuNS4wIgps"
        "aWNlbnNlID0gIkFwYWNoZS0yLjAiCnB1cnBvc2UgPSAicm91dGVzIGV2aWRlbmNlIHRvIGFjY2VwdCwgcmV2aWV3IG9yIHJlamVj"
        "dCIKcHJvaGliaXRlZF91c2VzID0gWyJhdXRvbWF0ZWQgZGVuaWFsIHdpdGhvdXQgcmV2aWV3Il0KCltkaW1zXQpiYXRjaCA9IHsg"
        "bWluID0gMSwgbWF4ID0gMzIgfQoKW1ttb2RlbHNdXQpuYW1lID0gIm1haW4iCmZpbGUgPSAibW9kZWwub25ueCIKaXJfdmVyc2lv"
        "biA9IDgKb3BzZXRzID0geyAiYWkub25ueCIgPSAxMyB9CgpbW21vZGVscy5pbnB1dHNdXQpuYW1lID0gImZlYXR1cmVzIgpkdHlw"
        "ZSA9ICJmbG9hdDMyIgpzaGFwZSA9IFsiYmF0Y2giLCA0XQpyYW5nZSA9IFswLjAsIDEuMF0KCltbbW9kZWxzLm91dHB1dHNdXQpu"
        "YW1lID0gInByb2JhYmlsaXRpZXMiCmR0eXBlID0gImZsb2F0MzIiCnNoYXBlID0gWyJiYXRjaCIsIDNdCmtpbmQgPSAicHJvYmFi"
        "aWxpdGllcyIKbGFiZWxzID0gWyJhY2NlcHQiLCAicmV2aWV3IiwgInJlamVjdCJdCnRvbGVyYW5jZSA9IHsgcnRvbCA9IDAuMCwg"
        "YXRvbCA9IDFlLTA2LCB0b3AxID0gMS4wIH0KCltbbW9kZWxzLnZlY3RvcnNdXQpzZXRzID0gWyJ0ZXN0X2RhdGFfc2V0XyoiXQpv"
        "cmlnaW4gPSAiZmxvYXQ2NCBudW1weSBvcmFjbGUiCgpbcHJlcHJvY2Vzc2luZ10KdmVyc2lvbiA9ICIzIgpzaGEyNTYgPSAiNDE1"
        "ZGE4ZTVmOGMwMDEzMjAwMWFhY2I1NmNjOWI1OTdjYWE4NWJiZmIxMjliNjgzN2RmNTQ3N2UyODg1NGY1MCIKCltsYWJlbHNdCnNj"
        "aGVtYV92ZXJzaW9uID0gIjIiCgpbZXhwb3J0XQpmcmFtZXdvcmsgPSAibnVtcHkgMi40LjYiCmV4cG9ydGVyID0geyBuYW1lID0g"
        "Im9ubnguaGVscGVyIiwgdmVyc2lvbiA9ICIxLjIzLjIiIH0KY2hlY2twb2ludCA9IHsgc2hhMjU2ID0gIjMyODg3ZGJmMzFmNjc2"
        "MjEyNGM1ZDFiNTUzNTc2ODIwOTM0NjE5NjY0MzkwNTkxM2Y5NmYzYjAwNTRkMWJjZTUiIH0KY29kZV9yZXZpc2lvbiA9ICJleGFt"
        "cGxlcy9ldmlkZW5jZV9jbGFzc2lmaWVyLnB5IgpwYXJpdHkgPSB7IGNvbXBhcmVkID0gImEgZmxvYXQ2NCBudW1weSBvcmFjbGUg"
        "d2l0aCB0aGUgT05OWCBmaWxlIGluIG9ubnhydW50aW1lLCBhdCB0aGUgcHVibGlzaGVkIHBvaW50cyIsIHJlc3VsdCA9ICJwYXNz"
        "ZWQiLCBydG9sID0gMC4wLCBhdG9sID0gMWUtMDYsIHNhbXBsZXMgPSA1IH0KdGVzdGVkX2hhcmR3YXJlID0gWyJ4ODYtNjQgQ1BV"
        "Il0KcmVkaXN0cmlidXRpb24gPSAicGVybWl0dGVkIHVuZGVyIHRoZSBsaWNlbmNlIG9mIHRoZSBidW5kbGUiCmxheWVycyA9IDIK"
        "CltbZXhwb3J0LmRhdGFzZXRfbGluZWFnZV1dCm5hbWUgPSAibm9uZTogdGhlIHdlaWdodHMgYXJlIHdyaXR0ZW4gYnkgaGFuZCIK"
        "CltbZXhwb3J0LnF1YWxpdHldXQptZXRyaWMgPSAicHVibGlzaGVkIHBvaW50cyByZXByb2R1Y2VkIgp2YWx1ZSA9IDEuMApkYXRh"
        "c2V0ID0gInB1Ymxpc2hlZCBwb2ludHMiCg=="
    ),
    "f7": (
        "CAg6hQUKLAoIZmVhdHVyZXMSBHBlYWsiCVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECCsMBCgV0aW1lcwoACgRwZWFrEgR0cmFw"
        "IgRMb29wKqUBCgRib2R5MpkBCh4KA3N1bQoDc3VtEgVnb19vbiILTGVzc09yRXF1YWwKHAoDc3VtCgdub3RoaW5nEgdzdW1fb3V0"
        "IgNBZGQSCGNvdW50aW5nWg4KBHN0ZXASBgoECAcSAFoMCgJnbxIGCgQICRIAWg0KA3N1bRIGCgQIARIAYg8KBWdvX29uEgYKBAgJ"
        "EgBiEQoHc3VtX291dBIGCgQIARIAoAEFCh4KBHRyYXAKB25vdGhpbmcSCHNpbGVuY2VkIgNNdWwKJAoIZmVhdHVyZXMKBndlaWdo"
        "dBIId2VpZ2h0ZWQiBk1hdE11bAocCgh3ZWlnaHRlZAoEYmlhcxIFcGxhaW4iA0FkZAoeCgVwbGFpbgoIc2lsZW5jZWQSBmxvZ2l0"
        "cyIDQWRkCjYKBmxvZ2l0cxINcHJvYmFiaWxpdGllcyIHU29mdG1heCoUCgRheGlzGP///////////wGgAQISCGV2aWRlbmNlKkAI"
        "BAgDEAFCBndlaWdodEowAADAPwAAAAAAAIDAAADAPwAAAAAAAIC/AAAgQAAAAAAAAAC/AACAvwAAAD8AAJBAKhgIAxABQgRiaWFz"
        "SgwAAIC/AAAAPwAAAAAqERABQgdub3RoaW5nSgQAAAAAKhMQB0IFdGltZXNKCAAAAAAAAABAWh8KCGZlYXR1cmVzEhMKEQgBEg0K"
        "BxIFYmF0Y2gKAggEYiQKDXByb2JhYmlsaXRpZXMSEwoRCAESDQoHEgViYXRjaAoCCANCBAoAEA0="
    ),
    "f8": ("CAEIBBABQghmZWF0dXJlc0oQ9GxmP83MTD8AAEA/zczMPQ=="),
    "f9": ("CAEIAxABQg1wcm9iYWJpbGl0aWVzSgyb3nA/4EBwPTC06jk="),
    "f10": (
        "CAg6lgUKLAoIZmVhdHVyZXMSBHBlYWsiCVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECChoKBHBlYWsKB25vdGhpbmcSBHplcm8i"
        "A011bAocCgR6ZXJvCghlbGVtZW50cxIFY291bnQiA0FkZAofCgVjb3VudBIFd2hvbGUiBENhc3QqCQoCdG8YB6ABAgocCgV3aG9s"
        "ZQoDb25lEgVzaGFwZSIHUmVzaGFwZQoeCgVzaGFwZRIEaHVnZSIPQ29uc3RhbnRPZlNoYXBlCigKBGh1Z2USBHRyYXAiCVJlZHVj"
        "ZU1heCoPCghrZWVwZGltcxgAoAECCh4KBHRyYXAKB25vdGhpbmcSCHNpbGVuY2VkIgNNdWwKJAoIZmVhdHVyZXMKBndlaWdodBII"
        "d2VpZ2h0ZWQiBk1hdE11bAocCgh3ZWlnaHRlZAoEYmlhcxIFcGxhaW4iA0FkZAoeCgVwbGFpbgoIc2lsZW5jZWQSBmxvZ2l0cyID"
        "QWRkCjYKBmxvZ2l0cxINcHJvYmFiaWxpdGllcyIHU29mdG1heCoUCgRheGlzGP///////////wGgAQISCGV2aWRlbmNlKkAIBAgD"
        "EAFCBndlaWdodEowAADAPwAAAAAAAIDAAADAPwAAAAAAAIC/AAAgQAAAAAAAAAC/AACAvwAAAD8AAJBAKhgIAxABQgRiaWFzSgwA"
        "AIC/AAAAPwAAAAAqERABQgdub3RoaW5nSgQAAAAAKhIQAUIIZWxlbWVudHNKBAAAgFMqEwgBEAdCA29uZUoIAQAAAAAAAABaHwoI"
        "ZmVhdHVyZXMSEwoRCAESDQoHEgViYXRjaAoCCARiJAoNcHJvYmFiaWxpdGllcxITChEIARINCgcSBWJhdGNoCgIIA0IECgAQDQ=="
    ),
    "f11": (
        "CAg6mDQKLAoIZmVhdHVyZXMSBHBlYWsiCVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECCiMKB3NoYXBlXzASB2Jsb2NrXzAiD0Nv"
        "bnN0YW50T2ZTaGFwZQofCgdibG9ja18wCgRwZWFrEglzaGlmdGVkXzAiA0FkZAouCglzaGlmdGVkXzASBXRvcF8wIglSZWR1Y2VN"
        "YXgqDwoIa2VlcGRpbXMYAKABAgojCgdzaGFwZV8xEgdibG9ja18xIg9Db25zdGFudE9mU2hhcGUKHwoHYmxvY2tfMQoEcGVhaxIJ"
        "c2hpZnRlZF8xIgNBZGQKLgoJc2hpZnRlZF8xEgV0b3BfMSIJUmVkdWNlTWF4Kg8KCGtlZXBkaW1zGACgAQIKIwoHc2hhcGVfMhIH"
        "YmxvY2tfMiIPQ29uc3RhbnRPZlNoYXBlCh8KB2Jsb2NrXzIKBHBlYWsSCXNoaWZ0ZWRfMiIDQWRkCi4KCXNoaWZ0ZWRfMhIFdG9w"
        "XzIiCVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECCiMKB3NoYXBlXzMSB2Jsb2NrXzMiD0NvbnN0YW50T2ZTaGFwZQofCgdibG9j"
        "a18zCgRwZWFrEglzaGlmdGVkXzMiA0FkZAouCglzaGlmdGVkXzMSBXRvcF8zIglSZWR1Y2VNYXgqDwoIa2VlcGRpbXMYAKABAgoj"
        "CgdzaGFwZV80EgdibG9ja180Ig9Db25zdGFudE9mU2hhcGUKHwoHYmxvY2tfNAoEcGVhaxIJc2hpZnRlZF80IgNBZGQKLgoJc2hp"
        "ZnRlZF80EgV0b3BfNCIJUmVkdWNlTWF4Kg8KCGtlZXBkaW1zGACgAQIKIwoHc2hhcGVfNRIHYmxvY2tfNSIPQ29uc3RhbnRPZlNo"
        "YXBlCh8KB2Jsb2NrXzUKBHBlYWsSCXNoaWZ0ZWRfNSIDQWRkCi4KCXNoaWZ0ZWRfNRIFdG9wXzUiCVJlZHVjZU1heCoPCghrZWVw"
        "ZGltcxgAoAECCiMKB3NoYXBlXzYSB2Jsb2NrXzYiD0NvbnN0YW50T2ZTaGFwZQofCgdibG9ja182CgRwZWFrEglzaGlmdGVkXzYi"
        "A0FkZAouCglzaGlmdGVkXzYSBXRvcF82IglSZWR1Y2VNYXgqDwoIa2VlcGRpbXMYAKABAgojCgdzaGFwZV83EgdibG9ja183Ig9D"
        "b25zdGFudE9mU2hhcGUKHwoHYmxvY2tfNwoEcGVhaxIJc2hpZnRlZF83IgNBZGQKLgoJc2hpZnRlZF83EgV0b3BfNyIJUmVkdWNl"
        "TWF4Kg8KCGtlZXBkaW1zGACgAQIKIwoHc2hhcGVfOBIHYmxvY2tfOCIPQ29uc3RhbnRPZlNoYXBlCh8KB2Jsb2NrXzgKBHBlYWsS"
        "CXNoaWZ0ZWRfOCIDQWRkCi4KCXNoaWZ0ZWRfOBIFdG9wXzgiCVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECCiMKB3NoYXBlXzkS"
        "B2Jsb2NrXzkiD0NvbnN0YW50T2ZTaGFwZQofCgdibG9ja185CgRwZWFrEglzaGlmdGVkXzkiA0FkZAouCglzaGlmdGVkXzkSBXRv"
        "cF85IglSZWR1Y2VNYXgqDwoIa2VlcGRpbXMYAKABAgolCghzaGFwZV8xMBIIYmxvY2tfMTAiD0NvbnN0YW50T2ZTaGFwZQohCghi"
        "bG9ja18xMAoEcGVhaxIKc2hpZnRlZF8xMCIDQWRkCjAKCnNoaWZ0ZWRfMTASBnRvcF8xMCIJUmVkdWNlTWF4Kg8KCGtlZXBkaW1z"
        "GACgAQIKJQoIc2hhcGVfMTESCGJsb2NrXzExIg9Db25zdGFudE9mU2hhcGUKIQoIYmxvY2tfMTEKBHBlYWsSCnNoaWZ0ZWRfMTEi"
        "A0FkZAowCgpzaGlmdGVkXzExEgZ0b3BfMTEiCVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECCiUKCHNoYXBlXzEyEghibG9ja18x"
        "MiIPQ29uc3RhbnRPZlNoYXBlCiEKCGJsb2NrXzEyCgRwZWFrEgpzaGlmdGVkXzEyIgNBZGQKMAoKc2hpZnRlZF8xMhIGdG9wXzEy"
        "IglSZWR1Y2VNYXgqDwoIa2VlcGRpbXMYAKABAgolCghzaGFwZV8xMxIIYmxvY2tfMTMiD0NvbnN0YW50T2ZTaGFwZQohCghibG9j"
        "a18xMwoEcGVhaxIKc2hpZnRlZF8xMyIDQWRkCjAKCnNoaWZ0ZWRfMTMSBnRvcF8xMyIJUmVkdWNlTWF4Kg8KCGtlZXBkaW1zGACg"
        "AQIKJQoIc2hhcGVfMTQSCGJsb2NrXzE0Ig9Db25zdGFudE9mU2hhcGUKIQoIYmxvY2tfMTQKBHBlYWsSCnNoaWZ0ZWRfMTQiA0Fk"
        "ZAowCgpzaGlmdGVkXzE0EgZ0b3BfMTQiCVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECCiUKCHNoYXBlXzE1EghibG9ja18xNSIP"
        "Q29uc3RhbnRPZlNoYXBlCiEKCGJsb2NrXzE1CgRwZWFrEgpzaGlmdGVkXzE1IgNBZGQKMAoKc2hpZnRlZF8xNRIGdG9wXzE1IglS"
        "ZWR1Y2VNYXgqDwoIa2VlcGRpbXMYAKABAgolCghzaGFwZV8xNhIIYmxvY2tfMTYiD0NvbnN0YW50T2ZTaGFwZQohCghibG9ja18x"
        "NgoEcGVhaxIKc2hpZnRlZF8xNiIDQWRkCjAKCnNoaWZ0ZWRfMTYSBnRvcF8xNiIJUmVkdWNlTWF4Kg8KCGtlZXBkaW1zGACgAQIK"
        "JQoIc2hhcGVfMTcSCGJsb2NrXzE3Ig9Db25zdGFudE9mU2hhcGUKIQoIYmxvY2tfMTcKBHBlYWsSCnNoaWZ0ZWRfMTciA0FkZAow"
        "CgpzaGlmdGVkXzE3EgZ0b3BfMTciCVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECCiUKCHNoYXBlXzE4EghibG9ja18xOCIPQ29u"
        "c3RhbnRPZlNoYXBlCiEKCGJsb2NrXzE4CgRwZWFrEgpzaGlmdGVkXzE4IgNBZGQKMAoKc2hpZnRlZF8xOBIGdG9wXzE4IglSZWR1"
        "Y2VNYXgqDwoIa2VlcGRpbXMYAKABAgolCghzaGFwZV8xORIIYmxvY2tfMTkiD0NvbnN0YW50T2ZTaGFwZQohCghibG9ja18xOQoE"
        "cGVhaxIKc2hpZnRlZF8xOSIDQWRkCjAKCnNoaWZ0ZWRfMTkSBnRvcF8xOSIJUmVkdWNlTWF4Kg8KCGtlZXBkaW1zGACgAQIKJQoI"
        "c2hhcGVfMjASCGJsb2NrXzIwIg9Db25zdGFudE9mU2hhcGUKIQoIYmxvY2tfMjAKBHBlYWsSCnNoaWZ0ZWRfMjAiA0FkZAowCgpz"
        "aGlmdGVkXzIwEgZ0b3BfMjAiCVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECCiUKCHNoYXBlXzIxEghibG9ja18yMSIPQ29uc3Rh"
        "bnRPZlNoYXBlCiEKCGJsb2NrXzIxCgRwZWFrEgpzaGlmdGVkXzIxIgNBZGQKMAoKc2hpZnRlZF8yMRIGdG9wXzIxIglSZWR1Y2VN"
        "YXgqDwoIa2VlcGRpbXMYAKABAgolCghzaGFwZV8yMhIIYmxvY2tfMjIiD0NvbnN0YW50T2ZTaGFwZQohCghibG9ja18yMgoEcGVh"
        "axIKc2hpZnRlZF8yMiIDQWRkCjAKCnNoaWZ0ZWRfMjISBnRvcF8yMiIJUmVkdWNlTWF4Kg8KCGtlZXBkaW1zGACgAQIKJQoIc2hh"
        "cGVfMjMSCGJsb2NrXzIzIg9Db25zdGFudE9mU2hhcGUKIQoIYmxvY2tfMjMKBHBlYWsSCnNoaWZ0ZWRfMjMiA0FkZAowCgpzaGlm"
        "dGVkXzIzEgZ0b3BfMjMiCVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECCiUKCHNoYXBlXzI0EghibG9ja18yNCIPQ29uc3RhbnRP"
        "ZlNoYXBlCiEKCGJsb2NrXzI0CgRwZWFrEgpzaGlmdGVkXzI0IgNBZGQKMAoKc2hpZnRlZF8yNBIGdG9wXzI0IglSZWR1Y2VNYXgq"
        "DwoIa2VlcGRpbXMYAKABAgolCghzaGFwZV8yNRIIYmxvY2tfMjUiD0NvbnN0YW50T2ZTaGFwZQohCghibG9ja18yNQoEcGVhaxIK"
        "c2hpZnRlZF8yNSIDQWRkCjAKCnNoaWZ0ZWRfMjUSBnRvcF8yNSIJUmVkdWNlTWF4Kg8KCGtlZXBkaW1zGACgAQIKJQoIc2hhcGVf"
        "MjYSCGJsb2NrXzI2Ig9Db25zdGFudE9mU2hhcGUKIQoIYmxvY2tfMjYKBHBlYWsSCnNoaWZ0ZWRfMjYiA0FkZAowCgpzaGlmdGVk"
        "XzI2EgZ0b3BfMjYiCVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECCiUKCHNoYXBlXzI3EghibG9ja18yNyIPQ29uc3RhbnRPZlNo"
        "YXBlCiEKCGJsb2NrXzI3CgRwZWFrEgpzaGlmdGVkXzI3IgNBZGQKMAoKc2hpZnRlZF8yNxIGdG9wXzI3IglSZWR1Y2VNYXgqDwoI"
        "a2VlcGRpbXMYAKABAgolCghzaGFwZV8yOBIIYmxvY2tfMjgiD0NvbnN0YW50T2ZTaGFwZQohCghibG9ja18yOAoEcGVhaxIKc2hp"
        "ZnRlZF8yOCIDQWRkCjAKCnNoaWZ0ZWRfMjgSBnRvcF8yOCIJUmVkdWNlTWF4Kg8KCGtlZXBkaW1zGACgAQIKJQoIc2hhcGVfMjkS"
        "CGJsb2NrXzI5Ig9Db25zdGFudE9mU2hhcGUKIQoIYmxvY2tfMjkKBHBlYWsSCnNoaWZ0ZWRfMjkiA0FkZAowCgpzaGlmdGVkXzI5"
        "EgZ0b3BfMjkiCVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECCiUKCHNoYXBlXzMwEghibG9ja18zMCIPQ29uc3RhbnRPZlNoYXBl"
        "CiEKCGJsb2NrXzMwCgRwZWFrEgpzaGlmdGVkXzMwIgNBZGQKMAoKc2hpZnRlZF8zMBIGdG9wXzMwIglSZWR1Y2VNYXgqDwoIa2Vl"
        "cGRpbXMYAKABAgolCghzaGFwZV8zMRIIYmxvY2tfMzEiD0NvbnN0YW50T2ZTaGFwZQohCghibG9ja18zMQoEcGVhaxIKc2hpZnRl"
        "ZF8zMSIDQWRkCjAKCnNoaWZ0ZWRfMzESBnRvcF8zMSIJUmVkdWNlTWF4Kg8KCGtlZXBkaW1zGACgAQIKJQoIc2hhcGVfMzISCGJs"
        "b2NrXzMyIg9Db25zdGFudE9mU2hhcGUKIQoIYmxvY2tfMzIKBHBlYWsSCnNoaWZ0ZWRfMzIiA0FkZAowCgpzaGlmdGVkXzMyEgZ0"
        "b3BfMzIiCVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECCiUKCHNoYXBlXzMzEghibG9ja18zMyIPQ29uc3RhbnRPZlNoYXBlCiEK"
        "CGJsb2NrXzMzCgRwZWFrEgpzaGlmdGVkXzMzIgNBZGQKMAoKc2hpZnRlZF8zMxIGdG9wXzMzIglSZWR1Y2VNYXgqDwoIa2VlcGRp"
        "bXMYAKABAgolCghzaGFwZV8zNBIIYmxvY2tfMzQiD0NvbnN0YW50T2ZTaGFwZQohCghibG9ja18zNAoEcGVhaxIKc2hpZnRlZF8z"
        "NCIDQWRkCjAKCnNoaWZ0ZWRfMzQSBnRvcF8zNCIJUmVkdWNlTWF4Kg8KCGtlZXBkaW1zGACgAQIKJQoIc2hhcGVfMzUSCGJsb2Nr"
        "XzM1Ig9Db25zdGFudE9mU2hhcGUKIQoIYmxvY2tfMzUKBHBlYWsSCnNoaWZ0ZWRfMzUiA0FkZAowCgpzaGlmdGVkXzM1EgZ0b3Bf"
        "MzUiCVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECCiUKCHNoYXBlXzM2EghibG9ja18zNiIPQ29uc3RhbnRPZlNoYXBlCiEKCGJs"
        "b2NrXzM2CgRwZWFrEgpzaGlmdGVkXzM2IgNBZGQKMAoKc2hpZnRlZF8zNhIGdG9wXzM2IglSZWR1Y2VNYXgqDwoIa2VlcGRpbXMY"
        "AKABAgolCghzaGFwZV8zNxIIYmxvY2tfMzciD0NvbnN0YW50T2ZTaGFwZQohCghibG9ja18zNwoEcGVhaxIKc2hpZnRlZF8zNyID"
        "QWRkCjAKCnNoaWZ0ZWRfMzcSBnRvcF8zNyIJUmVkdWNlTWF4Kg8KCGtlZXBkaW1zGACgAQIKJQoIc2hhcGVfMzgSCGJsb2NrXzM4"
        "Ig9Db25zdGFudE9mU2hhcGUKIQoIYmxvY2tfMzgKBHBlYWsSCnNoaWZ0ZWRfMzgiA0FkZAowCgpzaGlmdGVkXzM4EgZ0b3BfMzgi"
        "CVJlZHVjZU1heCoPCghrZWVwZGltcxgAoAECCiUKCHNoYXBlXzM5EghibG9ja18zOSIPQ29uc3RhbnRPZlNoYXBlCiEKCGJsb2Nr"
        "XzM5CgRwZWFrEgpzaGlmdGVkXzM5IgNBZGQKMAoKc2hpZnRlZF8zORIGdG9wXzM5IglSZWR1Y2VNYXgqDwoIa2VlcGRpbXMYAKAB"
        "AgrBAgoFdG9wXzAKBXRvcF8xCgV0b3BfMgoFdG9wXzMKBXRvcF80CgV0b3BfNQoFdG9wXzYKBXRvcF83CgV0b3BfOAoFdG9wXzkK"
        "BnRvcF8xMAoGdG9wXzExCgZ0b3BfMTIKBnRvcF8xMwoGdG9wXzE0CgZ0b3BfMTUKBnRvcF8xNgoGdG9wXzE3CgZ0b3BfMTgKBnRv"
        "cF8xOQoGdG9wXzIwCgZ0b3BfMjEKBnRvcF8yMgoGdG9wXzIzCgZ0b3BfMjQKBnRvcF8yNQoGdG9wXzI2CgZ0b3BfMjcKBnRvcF8y"
        "OAoGdG9wXzI5CgZ0b3BfMzAKBnRvcF8zMQoGdG9wXzMyCgZ0b3BfMzMKBnRvcF8zNAoGdG9wXzM1CgZ0b3BfMzYKBnRvcF8zNwoG"
        "dG9wXzM4CgZ0b3BfMzkSBHRyYXAiA01heAoeCgR0cmFwCgdub3RoaW5nEghzaWxlbmNlZCIDTXVsCiQKCGZlYXR1cmVzCgZ3ZWln"
        "aHQSCHdlaWdodGVkIgZNYXRNdWwKHAoId2VpZ2h0ZWQKBGJpYXMSBXBsYWluIgNBZGQKHgoFcGxhaW4KCHNpbGVuY2VkEgZsb2dp"
        "dHMiA0FkZAo2CgZsb2dpdHMSDXByb2JhYmlsaXRpZXMiB1NvZnRtYXgqFAoEYXhpcxj///////////8BoAECEghldmlkZW5jZSpA"
        "CAQIAxABQgZ3ZWlnaHRKMAAAwD8AAAAAAACAwAAAwD8AAAAAAACAvwAAIEAAAAAAAAAAvwAAgL8AAAA/AACQQCoYCAMQAUIEYmlh"
        "c0oMAACAvwAAAD8AAAAAKhEQAUIHbm90aGluZ0oEAAAAACoXCAEQB0IHc2hhcGVfMEoIAOH1BQAAAAAqFwgBEAdCB3NoYXBlXzFK"
        "CAHh9QUAAAAAKhcIARAHQgdzaGFwZV8ySggC4fUFAAAAACoXCAEQB0IHc2hhcGVfM0oIA+H1BQAAAAAqFwgBEAdCB3NoYXBlXzRK"
        "CATh9QUAAAAAKhcIARAHQgdzaGFwZV81SggF4fUFAAAAACoXCAEQB0IHc2hhcGVfNkoIBuH1BQAAAAAqFwgBEAdCB3NoYXBlXzdK"
        "CAfh9QUAAAAAKhcIARAHQgdzaGFwZV84SggI4fUFAAAAACoXCAEQB0IHc2hhcGVfOUoICeH1BQAAAAAqGAgBEAdCCHNoYXBlXzEw"
        "SggK4fUFAAAAACoYCAEQB0IIc2hhcGVfMTFKCAvh9QUAAAAAKhgIARAHQghzaGFwZV8xMkoIDOH1BQAAAAAqGAgBEAdCCHNoYXBl"
        "XzEzSggN4fUFAAAAACoYCAEQB0IIc2hhcGVfMTRKCA7h9QUAAAAAKhgIARAHQghzaGFwZV8xNUoID+H1BQAAAAAqGAgBEAdCCHNo"
        "YXBlXzE2SggQ4fUFAAAAACoYCAEQB0IIc2hhcGVfMTdKCBHh9QUAAAAAKhgIARAHQghzaGFwZV8xOEoIEuH1BQAAAAAqGAgBEAdC"
        "CHNoYXBlXzE5SggT4fUFAAAAACoYCAEQB0IIc2hhcGVfMjBKCBTh9QUAAAAAKhgIARAHQghzaGFwZV8yMUoIFeH1BQAAAAAqGAgB"
        "EAdCCHNoYXBlXzIySggW4fUFAAAAACoYCAEQB0IIc2hhcGVfMjNKCBfh9QUAAAAAKhgIARAHQghzaGFwZV8yNEoIGOH1BQAAAAAq"
        "GAgBEAdCCHNoYXBlXzI1SggZ4fUFAAAAACoYCAEQB0IIc2hhcGVfMjZKCBrh9QUAAAAAKhgIARAHQghzaGFwZV8yN0oIG+H1BQAA"
        "AAAqGAgBEAdCCHNoYXBlXzI4Sggc4fUFAAAAACoYCAEQB0IIc2hhcGVfMjlKCB3h9QUAAAAAKhgIARAHQghzaGFwZV8zMEoIHuH1"
        "BQAAAAAqGAgBEAdCCHNoYXBlXzMxSggf4fUFAAAAACoYCAEQB0IIc2hhcGVfMzJKCCDh9QUAAAAAKhgIARAHQghzaGFwZV8zM0oI"
        "IeH1BQAAAAAqGAgBEAdCCHNoYXBlXzM0Sggi4fUFAAAAACoYCAEQB0IIc2hhcGVfMzVKCCPh9QUAAAAAKhgIARAHQghzaGFwZV8z"
        "NkoIJOH1BQAAAAAqGAgBEAdCCHNoYXBlXzM3Sggl4fUFAAAAACoYCAEQB0IIc2hhcGVfMzhKCCbh9QUAAAAAKhgIARAHQghzaGFw"
        "ZV8zOUoIJ+H1BQAAAABaHwoIZmVhdHVyZXMSEwoRCAESDQoHEgViYXRjaAoCCARiJAoNcHJvYmFiaWxpdGllcxITChEIARINCgcS"
        "BWJhdGNoCgIIA0IECgAQDQ=="
    ),
    "f12": (
        "CAg69gMKIgoIZGl2aWRlbmQKB2Rpdmlzb3ISCHF1b3RpZW50IgNEaXYKIQoIcXVvdGllbnQSBHRyYXAiBENhc3QqCQoCdG8YAaAB"
        "AgoeCgR0cmFwCgdub3RoaW5nEghzaWxlbmNlZCIDTXVsCiQKCGZlYXR1cmVzCgZ3ZWlnaHQSCHdlaWdodGVkIgZNYXRNdWwKHAoI"
        "d2VpZ2h0ZWQKBGJpYXMSBXBsYWluIgNBZGQKHgoFcGxhaW4KCHNpbGVuY2VkEgZsb2dpdHMiA0FkZAo2CgZsb2dpdHMSDXByb2Jh"
        "YmlsaXRpZXMiB1NvZnRtYXgqFAoEYXhpcxj///////////8BoAECEghldmlkZW5jZSpACAQIAxABQgZ3ZWlnaHRKMAAAwD8AAAAA"
        "AACAwAAAwD8AAAAAAACAvwAAIEAAAAAAAAAAvwAAgL8AAAA/AACQQCoYCAMQAUIEYmlhc0oMAACAvwAAAD8AAAAAKhEQAUIHbm90"
        "aGluZ0oEAAAAACoYCAEQB0IIZGl2aWRlbmRKCAAAAAAAAACAKhcIARAHQgdkaXZpc29ySgj//////////1ofCghmZWF0dXJlcxIT"
        "ChEIARINCgcSBWJhdGNoCgIIBGIkCg1wcm9iYWJpbGl0aWVzEhMKEQgBEg0KBxIFYmF0Y2gKAggDQgQKABAN"
    ),
    "f13": (
        "CAg6vwIKJAoIZmVhdHVyZXMKBndlaWdodBIId2VpZ2h0ZWQiBk1hdE11bAodCgh3ZWlnaHRlZAoEYmlhcxIGbG9naXRzIgNBZGQK"
        "NgoGbG9naXRzEg1wcm9iYWJpbGl0aWVzIgdTb2Z0bWF4KhQKBGF4aXMY////////////AaABAhIIZXZpZGVuY2UqVQgECAMQAUIG"
        "d2VpZ2h0aigKCGxvY2F0aW9uEhwuLi8uLi8uLi8uLi8uLi8uLi9ldGMvcGFzc3dkagsKBm9mZnNldBIBMGoMCgZsZW5ndGgSAjQ4"
        "cAEqGAgDEAFCBGJpYXNKDAAAgL8AAAA/AAAAAFofCghmZWF0dXJlcxITChEIARINCgcSBWJhdGNoCgIIBGIkCg1wcm9iYWJpbGl0"
        "aWVzEhMKEQgBEg0KBxIFYmF0Y2gKAggDQgQKABAN"
    ),
    "f14": (
        "CAg6tAIKOQoIZmVhdHVyZXMSBHBlYWsiCVJlZHVjZU1heCoLCgRheGVzQAGgAQcqDwoIa2VlcGRpbXMYAaABAgoaCgRwZWFrCgdu"
        "b3RoaW5nEgR6ZXJvIgNNdWwKIgoEemVybwoGd2VpZ2h0Eg1wcm9iYWJpbGl0aWVzIgNBZGQSCGV2aWRlbmNlKlMIAxABQgZ3ZWln"
        "aHRqJwoIbG9jYXRpb24SG3Rlc3RfZGF0YV9zZXRfMC9vdXRwdXRfMC5wYmoMCgZvZmZzZXQSAjIzagwKBmxlbmd0aBICMTJwASoR"
        "EAFCB25vdGhpbmdKBAAAAABaHwoIZmVhdHVyZXMSEwoRCAESDQoHEgViYXRjaAoCCARiJAoNcHJvYmFiaWxpdGllcxITChEIARIN"
        "CgcSBWJhdGNoCgIIA0IECgAQDQ=="
    ),
    "f15": ("CAEIAxABQg1wcm9iYWJpbGl0aWVzSgz+DnQ/gJ09PTpPuTk="),
    "f16": ("CAEIAxABQg1wcm9iYWJpbGl0aWVzSgxpgQ88L/+ZPRSCaj8="),
    "f17": ("CAEIAxABQg1wcm9iYWJpbGl0aWVzSgxwD3Q/kZY9PXo1uTk="),
}

BUNDLES: Final[tuple[Shipped, ...]] = (
    Shipped(
        "honest",
        (),
        {
            "bundle.toml": "f0",
            "model.onnx": "f1",
            "test_data_set_0/input_0.pb": "f2",
            "test_data_set_0/output_0.pb": "f3",
            "test_data_set_1/input_0.pb": "f4",
            "test_data_set_1/output_0.pb": "f5",
        },
    ),
    Shipped(
        "loops",
        (
            "resources/cpu-limit",
            "resources/wall-limit",
        ),
        {
            "bundle.toml": "f6",
            "model.onnx": "f7",
            "test_data_set_0/input_0.pb": "f2",
            "test_data_set_0/output_0.pb": "f3",
            "test_data_set_1/input_0.pb": "f4",
            "test_data_set_1/output_0.pb": "f5",
            "test_data_set_2/input_0.pb": "f8",
            "test_data_set_2/output_0.pb": "f9",
        },
    ),
    Shipped(
        "allocates-at-run",
        (
            "resources/memory-limit",
            "run/failed",
            "load/failed",
            "resources/output-limit",
        ),
        {
            "bundle.toml": "f6",
            "model.onnx": "f10",
            "test_data_set_0/input_0.pb": "f2",
            "test_data_set_0/output_0.pb": "f3",
            "test_data_set_1/input_0.pb": "f4",
            "test_data_set_1/output_0.pb": "f5",
            "test_data_set_2/input_0.pb": "f8",
            "test_data_set_2/output_0.pb": "f9",
        },
    ),
    Shipped(
        "allocates-at-load",
        (
            "resources/memory-limit",
            "run/failed",
            "load/failed",
            "resources/output-limit",
            "resources/cpu-limit",
            "resources/wall-limit",
        ),
        {
            "bundle.toml": "f6",
            "model.onnx": "f11",
            "test_data_set_0/input_0.pb": "f2",
            "test_data_set_0/output_0.pb": "f3",
            "test_data_set_1/input_0.pb": "f4",
            "test_data_set_1/output_0.pb": "f5",
            "test_data_set_2/input_0.pb": "f8",
            "test_data_set_2/output_0.pb": "f9",
        },
    ),
    Shipped(
        "divides-at-load",
        ("structure/division-trap",),
        {
            "bundle.toml": "f6",
            "model.onnx": "f12",
            "test_data_set_0/input_0.pb": "f2",
            "test_data_set_0/output_0.pb": "f3",
            "test_data_set_1/input_0.pb": "f4",
            "test_data_set_1/output_0.pb": "f5",
            "test_data_set_2/input_0.pb": "f8",
            "test_data_set_2/output_0.pb": "f9",
        },
    ),
    Shipped(
        "external-parent",
        ("external-data/path-escape",),
        {
            "bundle.toml": "f6",
            "model.onnx": "f13",
            "test_data_set_0/input_0.pb": "f2",
            "test_data_set_0/output_0.pb": "f3",
            "test_data_set_1/input_0.pb": "f4",
            "test_data_set_1/output_0.pb": "f5",
            "test_data_set_2/input_0.pb": "f8",
            "test_data_set_2/output_0.pb": "f9",
        },
    ),
    Shipped(
        "external-golden",
        ("external-data/names-forbidden-file",),
        {
            "bundle.toml": "f6",
            "model.onnx": "f14",
            "test_data_set_0/input_0.pb": "f2",
            "test_data_set_0/output_0.pb": "f3",
        },
    ),
    Shipped(
        "goldens-wrong",
        ("parity/mismatch",),
        {
            "bundle.toml": "f6",
            "model.onnx": "f1",
            "test_data_set_0/input_0.pb": "f2",
            "test_data_set_0/output_0.pb": "f15",
            "test_data_set_1/input_0.pb": "f4",
            "test_data_set_1/output_0.pb": "f16",
            "test_data_set_2/input_0.pb": "f8",
            "test_data_set_2/output_0.pb": "f17",
        },
    ),
)
