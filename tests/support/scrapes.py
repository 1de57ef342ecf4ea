"""Scrapes metrics as Prometheus does, and parses them."""

from dataclasses import dataclass
from typing import Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    content_type: str
    text: str


def ask(url: str, accept: str = "*/*") -> Answer:
    try:
        with urlopen(Request(url, headers={"Accept": accept}), timeout=60) as answer:
            return Answer(
                status=answer.status, content_type=answer.headers["Content-Type"], text=answer.read().decode()
            )
    except HTTPError as refused:
        with refused:
            return Answer(
                status=refused.code, content_type=refused.headers["Content-Type"], text=refused.read().decode()
            )


class Scrape:
    """The values of one scrape: `scrape("kcoord_groups", state="Stable")`. A sample that does not exist is 0."""

    def __init__(self, url: str, accept: str = "*/*") -> None:
        text = ask(url, accept).text
        parse = open_metrics if accept == OPEN_METRICS else plain_text
        self.families = {family.name: family for family in parse(text)}
        self._values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in self.families.values():
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in self._values, f"{key} is told twice"
                self._values[key] = sample.value

    def __call__(self, name: str, **labels: str) -> float:
        return self._values.get((name, frozenset(labels.items())), 0.0)

    def by(self, name: str, label: str) -> dict[str, float]:
        """Returns the values that are not 0, by one label."""
        return {
            dict(labels)[label]: value
            for (sample_name, labels), value in self._values.items()
            if sample_name == name and value
        }
