"""Finds and formats the differences between two plain answers."""

from collections.abc import Iterator, Mapping
from pprint import pformat
from typing import Any

from tests.support.differential.plain import Plain


class Differs(AssertionError):
    """kcoord answered differently from Kafka."""


def explain(request: str, values: Mapping[str, Any], kafka: Plain, kcoord: Plain) -> str:
    """Formats the request, both answers, and the fields in which they differ."""
    asked = ["the request:", pformat(dict(values), width=160)]
    return "\n".join([f"{request} is answered differently:", *asked, explain_answers(kafka, kcoord)])


def explain_answers(kafka: Plain, kcoord: Plain) -> str:
    """Formats both answers, and the fields in which they differ."""
    lines = [
        f"  {where or 'the answer'}: Kafka {kafka_value!r}, kcoord {kcoord_value!r}"
        for where, kafka_value, kcoord_value in _walk(kafka, kcoord)
    ]
    return "\n".join(
        [
            *lines,
            "Kafka answers:",
            pformat(kafka, width=160, sort_dicts=False),
            "kcoord answers:",
            pformat(kcoord, width=160, sort_dicts=False),
        ]
    )


def _walk(kafka: Plain, kcoord: Plain, where: str = "") -> Iterator[tuple[str, Plain, Plain]]:
    if isinstance(kafka, dict) and isinstance(kcoord, dict) and kafka.keys() == kcoord.keys():
        for name in kafka:
            yield from _walk(kafka[name], kcoord[name], f"{where}.{name}".removeprefix("."))
    elif isinstance(kafka, list) and isinstance(kcoord, list) and len(kafka) == len(kcoord):
        for index, (kafka_part, kcoord_part) in enumerate(zip(kafka, kcoord, strict=True)):
            yield from _walk(kafka_part, kcoord_part, f"{where}[{index}]")
    elif kafka != kcoord:
        yield where, kafka, kcoord


def in_any_order(answer: Plain, *names: str) -> Plain:
    """Sorts these lists in an answer: Kafka returns them in the order of a hash table."""
    if isinstance(answer, list):
        return [in_any_order(element, *names) for element in answer]
    if not isinstance(answer, dict):
        return answer
    return {
        name: sorted(in_any_order(part, *names), key=repr) if name in names and part else in_any_order(part, *names)
        for name, part in answer.items()
    }
