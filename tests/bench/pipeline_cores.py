"""The job of the pipeline's benchmark on so many cores, in seconds: python -m tests.bench.pipeline_cores CORES FOLDER

`local[1]` is not one core: its one task is a thread of the JVM and a Python worker, which run at the same time. So the
whole process and all that it starts is bound to as many processors as the number of cores that Spark is given.
"""

import os
import sys
from pathlib import Path

from kcoord.pipeline.decoding.segments import find_segments, plan_ranges
from kcoord.pipeline.session import SparkConfig, open_session
from tests.bench.support.pipeline_job import best, job


def main(cores: int, folder: Path) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    with open_session(SparkConfig(master=f"local[{cores}]")) as spark:
        print(best({"job": lambda: job(spark, plan_ranges(find_segments(folder)))})["job"].wall)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
