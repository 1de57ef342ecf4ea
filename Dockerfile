# kcoord as an image: `docker build -t kcoord .` for the command, and with `--target pipeline` Spark and Java beside it.
# docs/docker.md says how they are run. Of this folder only what .dockerignore lets through is seen here.

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY kcoord kcoord
COPY commands commands
COPY fixtures/kafka fixtures/kafka
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm AS base
# Folders for volumes: a new volume belongs to whom the folder belongs.
RUN useradd --uid 10001 --user-group --create-home kcoord \
    && install --directory --owner kcoord --group kcoord /data /tables
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --no-cache-dir /wheels/*.whl
USER kcoord
WORKDIR /home/kcoord
ENV PYTHONUNBUFFERED=1
ENTRYPOINT ["kcoord"]
CMD ["--help"]

FROM base AS pipeline
USER root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    for wheel in /wheels/*.whl; do pip install --no-cache-dir "$wheel[pipeline]"; done
USER kcoord

# The last stage is what is built if none is named.
FROM base AS kcoord
EXPOSE 29092 9464
# Of `kcoord serve` and `kcoord proxy` with `--metrics 0.0.0.0:9464`.
HEALTHCHECK --interval=5s --timeout=4s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9464/healthz', timeout=3)"]
