"""A program for spark-submit that prints the settings of its session, as JSON."""

import json
import sys

from kcoord.pipeline.session import SparkConfig, open_session

if __name__ == "__main__":
    with open_session(SparkConfig()) as spark:
        print(json.dumps({key: spark.conf.get(key, None) for key in sys.argv[1:]}))
