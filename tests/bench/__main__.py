"""Every benchmark in turn: python -m tests.bench"""

from tests.bench import admin, assignors, groups, pipeline, pipeline_small, produce_fetch, proxy, restart, start

if __name__ == "__main__":
    start.main()
    produce_fetch.main()
    groups.main()
    restart.main()
    admin.main()
    pipeline.main()
    pipeline_small.main()
    proxy.main()
    assignors.main()
