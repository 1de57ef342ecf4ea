"""Pages of metrics for many concurrent requests take only a part of the event loop's time."""

import asyncio
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kcoord.metrics.pages import Pages, choose_format

SECONDS = 0.01


class _Costly(Collector):
    """A collector that takes some time on a manual clock, and counts its calls."""

    def __init__(self) -> None:
        self.now = 100.0
        self.collected = 0
        self.slept: list[float] = []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        self.now += SECONDS
        self.collected += 1
        yield GaugeMetricFamily("collected", "how often", value=self.collected)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yields nothing, so that registering does not collect it."""
        yield from ()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def pages(self) -> Pages:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return Pages(registry, clock=lambda: self.now, sleep=self.sleep)


@pytest.mark.parametrize("version", ["1.0.0", "1.\u0660.0", "\u0661.0.0", "1.x"])
def test_no_character_that_only_the_client_wrote_is_in_the_content_type(version: str) -> None:
    """Python reads digits of all scripts as numbers, and prometheus_client repeats the version as it came."""
    _, content_type = choose_format(f"application/openmetrics-text; version={version}")
    assert content_type.isascii()
    assert "version=1.0.0" in content_type or content_type.startswith("text/plain")


def test_who_asks_while_a_page_waits_to_be_made_shares_it() -> None:
    costly = _Costly()

    async def ask_often() -> list[tuple[bytes, str]]:
        pages = costly.pages()
        return await asyncio.gather(*(pages.page("") for _ in range(100)))

    answers = asyncio.run(ask_often())
    assert costly.collected == 1
    assert {b"collected 1.0" in body for body, _ in answers} == {True}


def test_each_page_is_made_after_it_was_asked_for() -> None:
    costly = _Costly()

    async def ask_again() -> list[bool]:
        pages = costly.pages()
        return [f"collected {number}.0".encode() in (await pages.page(""))[0] for number in (1, 2, 3)]

    assert asyncio.run(ask_again()) == [True] * 3


def test_pages_take_a_fifth_of_the_time_at_most() -> None:
    costly = _Costly()

    async def ask_again() -> float:
        pages = costly.pages()
        began = costly.now
        for number in range(50):
            await pages.page("application/openmetrics-text" if number % 2 else "")
        return costly.now - began

    elapsed = asyncio.run(ask_again())
    assert costly.collected * SECONDS / elapsed <= 0.21


def test_who_hangs_up_takes_the_page_from_nobody() -> None:
    costly = _Costly()

    async def one_hangs_up() -> tuple[bytes, str]:
        pages = costly.pages()
        gone, waits = asyncio.ensure_future(pages.page("")), asyncio.ensure_future(pages.page(""))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        return await waits

    assert b"collected 1.0" in asyncio.run(one_hangs_up())[0]
