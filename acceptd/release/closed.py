"""The error of a channel that takes a bundle not now, with what somebody has to do. Words alone."""

from __future__ import annotations

from collections.abc import Sequence

from acceptd.errors import ChannelClosedError
from acceptd.policy.channels import Rule
from acceptd.release.gate import Reason


def refusal(
    model_id: str, rule: Rule, digest: str, reasons: Sequence[Reason], *, by_itself: bool
) -> ChannelClosedError:
    """Return the error for reasons of which there is one at least; ``by_itself``: nobody asked for it by hand."""
    place = f"{model_id} {rule.name}: {digest[:12]} is not promoted"
    steps = [step for one in reasons if (step := _step(model_id, rule, one))]
    by_hand = f"acceptd release promote {model_id} --channel {rule.name} --digest {digest[:12]}"
    # The daemon looks again and again at a channel that waits for another; nothing else comes back by itself.
    if by_itself and rule.after_channel:
        steps.append("then the daemon promotes it by itself")
    else:
        steps.append(f"then `{by_hand}`")
    remedy = ", ".join(dict.fromkeys(steps))
    text = "; ".join(one.text for one in reasons)
    return ChannelClosedError(f"{place}: {text}", remedy=remedy, words=tuple(one.word for one in reasons))


def _step(model_id: str, rule: Rule, one: Reason) -> str:
    if one.word == "frozen":
        whole = "--all-models" if one.everyone else model_id
        return f"`acceptd release unfreeze {whole} --channel {rule.name} --reason TEXT`"
    if one.word == "pinned":
        return f"`acceptd release unpin {model_id} --channel {rule.name} --reason TEXT`"
    if one.word == "early":
        return f"wait until {one.due}"
    return f"promote it to {rule.after_channel} first"
