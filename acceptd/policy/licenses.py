"""SPDX licence expressions against a list of licences that the acceptor allows. Pure, linear in the text.

Grammar and precedence (WITH over AND over OR) are those of SPDX 3.0, annex B; the identifiers are those of
``packaging.licenses``.
"""

from __future__ import annotations

from collections.abc import Iterable

_PRECEDENCE = {"OR": 1, "AND": 2}


def canonical(expression: str) -> str:
    """Return an SPDX expression in its canonical spelling; raise ValueError that says what is wrong with it."""
    # Imported here: its list of licences costs 4 ms, and few policies have one of their own.
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    try:
        return canonicalize_license_expression(expression)
    except InvalidLicenseExpression as error:
        raise ValueError(str(error)) from error


def valid_entry(expression: str) -> str:
    """Return one entry of ``licenses.allowed`` in canonical spelling: a licence, perhaps with an exception.

    Raises ValueError for an unknown licence, and for AND and OR: what may be combined follows from the entries.
    """
    found = canonical(expression)
    if any(word in {"AND", "OR"} for word in found.replace("(", " ").replace(")", " ").split()):
        raise ValueError(f"{expression[:80]!r} combines licences; list each by itself")
    return found.strip("()")


def refused(expression: str, allowed: Iterable[str]) -> list[str]:
    """Return the licences of ``expression`` that stand against it; empty where the expression is allowed.

    Of ``A OR B`` one has to be allowed, of ``A AND B`` both. ``allowed`` are canonical entries; a licence with
    an exception is allowed only as the pair. Raises ValueError where it is no SPDX expression.
    """
    listed = frozenset(allowed)
    output: list[frozenset[str]] = []
    waiting: list[str] = []

    def join() -> None:
        right, left = output.pop(), output.pop()
        # What stands against an OR stands only while neither side is allowed.
        output.append(left | right if waiting.pop() == "AND" or (left and right) else frozenset())

    for part in _tokens(canonical(expression)):
        if part == "(":
            waiting.append(part)
        elif part == ")":
            while waiting[-1] != "(":
                join()
            waiting.pop()
        elif part in _PRECEDENCE:
            while waiting and waiting[-1] != "(" and _PRECEDENCE[waiting[-1]] >= _PRECEDENCE[part]:
                join()
            waiting.append(part)
        else:
            output.append(frozenset() if part in listed else frozenset({part}))
    while waiting:
        join()
    return sorted(output.pop())


def _tokens(expression: str) -> list[str]:
    """Return parentheses, AND, OR and licences, ``X WITH Y`` as one."""
    tokens: list[str] = []
    for word in expression.replace("(", " ( ").replace(")", " ) ").split():
        if tokens and (word == "WITH" or tokens[-1].endswith(" WITH")):
            tokens[-1] += f" {word}"
        else:
            tokens.append(word)
    return tokens
