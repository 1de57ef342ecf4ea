"""Malformed frames by the thousand against one server."""

import json
import os
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from random import SystemRandom

import pytest

from kcoord.api_keys import ApiKey
from tests.hostile.conftest import Serve
from tests.hostile.fuzzing import Outcome
from tests.hostile.mutations import TOPIC
from tests.support.hostile.scene import Scene, wait_until
from tests.support.procs import MIB

FRAMES = int(os.environ.get("KCOORD_TEST_FRAMES", "20000"))
SEED = int(os.environ.get("KCOORD_TEST_SEED") or SystemRandom().randrange(2**31))
GENERATORS = 2
# After the warm-up every code path has been compiled and the allocator has its arenas. Growth may still come from
# topics that mutated requests create until they are swept, and from fragmentation of the heap.
GROWTH_ALLOWED = 16 * MIB
SETTINGS = {"kcoord.log.bytes": str(16 * MIB), "auto.create.topics.enable": "false"}
ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(120 + FRAMES // 250)
def test_malformed_frames_do_no_harm(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Sends KCOORD_TEST_FRAMES frames; in the end there is no fault in the log, and no memory or file is lost.

    A million takes minutes:

        KCOORD_TEST_FRAMES=1000000 python -m pytest tests/hostile/test_fuzz.py

    KCOORD_TEST_SEED repeats a run that failed.
    """
    scene = serve(topics={TOPIC: 1}, settings=SETTINGS)
    files = scene.open_files
    warm_up = _fuzz(scene, SEED + 1_000_000, min(FRAMES // 4, 40_000))
    before = scene.resident_bytes
    outcome = _fuzz(scene, SEED, FRAMES)
    after = scene.resident_bytes
    with capsys.disabled():
        print(f"\nseed {SEED}, after {warm_up.frames} frames to warm up: {_format_outcome(outcome, before, after)}")
    repeat = f"KCOORD_TEST_SEED={SEED} KCOORD_TEST_FRAMES={FRAMES} repeats it"
    assert outcome.frames >= 0.99 * FRAMES, f"{_format_outcome(outcome, before, after)}; {repeat}"
    assert after - before < GROWTH_ALLOWED, f"{_format_outcome(outcome, before, after)}; {repeat}"
    _sweep_topics(scene)  # This deletes the files of their records.
    wait_until(lambda: scene.open_files <= files, what=f"the files are closed; {repeat}")
    try:
        scene.assert_well()
    except AssertionError as fault:
        pytest.fail(f"{repeat}\n{fault}", pytrace=False)


def _fuzz(scene: Scene, seed: int, frames: int) -> Outcome:
    """Runs the generators and cleans up behind them."""
    address = f"{scene.address[0]}:{scene.address[1]}"
    command = [sys.executable, "-m", "tests.hostile.fuzzing", address]
    share = str(frames // GENERATORS)
    generators = [
        subprocess.Popen([*command, str(seed + number), share], stdout=subprocess.PIPE, cwd=ROOT)
        for number in range(GENERATORS)
    ]
    try:
        while any(generator.poll() is None for generator in generators):
            time.sleep(0.5)
            _sweep_topics(scene)
        outputs = [generator.communicate(timeout=60)[0] for generator in generators]
    finally:
        for generator in generators:
            generator.kill()
            generator.wait()
            if generator.stdout:
                generator.stdout.close()
    return _sum([Outcome(**json.loads(line)) for line in outputs])


def _sweep_topics(scene: Scene) -> None:
    """Deletes topics that mutated requests created, and creates the one that they deleted."""
    with scene.client() as client:
        names = [topic.name for topic in client.ask(ApiKey.METADATA, 12, topics=None).topics]
        doomed = [{"name": name, "topic_id": None} for name in names]
        client.ask(ApiKey.DELETE_TOPICS, 6, topics=doomed)
        client.ask(ApiKey.CREATE_TOPICS, 7, topics=[{"name": TOPIC, "num_partitions": 1, "replication_factor": 1}])


def _sum(outcomes: list[Outcome]) -> Outcome:
    total = {field.name: sum(getattr(each, field.name) for each in outcomes) for field in fields(Outcome)}
    total["seconds"] = max(each.seconds for each in outcomes)
    return Outcome(**total)


def _format_outcome(outcome: Outcome, before: int, after: int) -> str:
    return (
        f"{outcome.frames} frames ({outcome.answered} answered, {outcome.closed} closed, {outcome.parked} parked) on "
        f"{outcome.connections} connections in {outcome.seconds:.1f} s; "
        f"resident {before / MIB:.1f} MiB, then {after / MIB:.1f} MiB"
    )
