# A node in a container:
#
#   docker build --tag lakebed .
#   docker run --publish 9000:9000 --volume lakebed:/var/lib/lakebed \
#       --env LAKEBED_ACCESS_KEY=… --env LAKEBED_SECRET_KEY=… lakebed
#
# Without the two variables the first start creates a key and prints it. See examples/README.md.

ARG PYTHON=3.11

FROM python:${PYTHON}-slim-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
# What changes seldom comes first: the environment stays while only the sources change.
COPY constraints.txt ./
RUN python -m venv /opt/lakebed \
    && /opt/lakebed/bin/pip install --no-cache-dir --constraint constraints.txt \
        setuptools wheel Cython
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE ./
COPY src src
# EXTRAS=[spark] for the jobs; they need a Java too, as of [spark,java].
ARG EXTRAS=
RUN LAKEBED_REQUIRE_KERNELS=1 /opt/lakebed/bin/pip install --no-cache-dir \
        --constraint constraints.txt --no-build-isolation ".${EXTRAS}" \
    && /opt/lakebed/bin/pip uninstall --yes setuptools wheel Cython

FROM python:${PYTHON}-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /var/lib/lakebed --shell /usr/sbin/nologin lakebed \
    && install --directory --owner lakebed --group lakebed --mode 0700 /var/lib/lakebed
COPY --from=build /opt/lakebed /opt/lakebed

# Others reach S3, whose requests are signed. The HTTP API takes keys as they are, so it stays inside
# until there is a certificate. Requests under way have 8 seconds: `docker stop` kills after 10.
ENV PATH=/opt/lakebed/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    LAKEBED_ROOT=/var/lib/lakebed \
    LAKEBED_NODE_S3_HOST=0.0.0.0 \
    LAKEBED_NODE_HTTP_HOST=127.0.0.1 \
    LAKEBED_NODE_LOG_FORMAT=json \
    LAKEBED_NODE_DRAIN_S=8 \
    HEALTH_URL=http://127.0.0.1:9001/healthz

USER lakebed
WORKDIR /var/lib/lakebed
VOLUME /var/lib/lakebed
EXPOSE 9000 9001
STOPSIGNAL SIGTERM
# With a certificate HEALTH_URL is https://…; it is not checked, for nobody is between.
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, ssl, urllib.request as r; c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE; r.urlopen(os.environ['HEALTH_URL'], timeout=4, context=c)"]
ENTRYPOINT ["lakebed", "serve"]
