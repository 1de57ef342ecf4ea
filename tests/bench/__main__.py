"""Every benchmark in turn: python -m tests.bench"""

from tests.bench import groups, produce_fetch, restart, start

if __name__ == "__main__":
    start.main()
    produce_fetch.main()
    groups.main()
    restart.main()
