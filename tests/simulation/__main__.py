"""`python -m tests.simulation 17` runs seed 17 again and prints its diary."""

import logging
import os
import sys

from tests.simulation.simulation import Simulation


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    logging.disable()
    simulation = Simulation(int(sys.argv[1]), int(os.environ.get("KCOORD_SIMULATION_STEPS", "1000")))
    try:
        simulation.run()
    finally:
        print(simulation.environment.format_diary())


if __name__ == "__main__":
    main()
