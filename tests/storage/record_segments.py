"""Records the golden segments again, from a real broker: `python -m tests.storage.record_segments`."""

import shutil
from pathlib import Path
from typing import Final

from kcoord.testing.kafka import KafkaCluster
from kcoord.testing.tools import JavaTools
from tests.support.logs.log_dump_scene import SETTINGS, LogScene

FOLDER: Final = Path(__file__).parent.parent.parent / "fixtures" / "segments"
SEGMENT: Final = Path("__consumer_offsets-0") / "00000000000000000000.log"
PRINTED: Final = "kafka-dump-log.txt"
CODECS: Final = {"plain": "0", "lz4": "3"}


def record(name: str) -> None:
    """Records a broker's segment with this codec, and what Kafka's own tool prints of it."""
    target = FOLDER / name
    with KafkaCluster(properties=SETTINGS | {"offsets.topic.compression.codec": CODECS[name]}) as kafka:
        scene = LogScene(kafka.bootstrap)
        scene.play()
        scene.close()
        target.joinpath(SEGMENT).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(kafka.brokers[0].data_dir / SEGMENT, target / SEGMENT)
    printed = JavaTools().run("dump-log", "--offsets-decoder", "--files", target / SEGMENT).stdout
    # The first line names the file.
    target.joinpath(PRINTED).write_text("".join(printed.splitlines(keepends=True)[1:]))


if __name__ == "__main__":
    for each in CODECS:
        record(each)
