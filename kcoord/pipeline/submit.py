"""The command `kcoord` for spark-submit, which runs a file and knows no modules:

    file=$(python -c 'from kcoord.pipeline import submit; print(submit.__file__)')
    spark-submit --master yarn "$file" pipeline decode /copies/logs --out hdfs://name/tables

Master, memory and all other settings are then spark-submit's.
"""

import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    # Python looks first where the file is that it was told to run: our modules would be found there under short names.
    own = Path(__file__).resolve().parent
    sys.path[:] = [each for each in sys.path if not each or Path(each).resolve() != own]
    # By its name alone, since what is above the pipeline is no module of its own.
    import_module("kcoord.commands.main").main()


if __name__ == "__main__":
    main()
