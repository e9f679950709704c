# ckpt with the drivers of all stores, for jobs: `docker run --rm ghcr.io/langgraph-ckpt/ckpt --help`.
# It needs no file that it can write, but for /tmp and $XDG_STATE_HOME, where operations are logged.
FROM python:3.13-slim-bookworm AS build
COPY --from=ghcr.io/astral-sh/uv:0.13.9 /uv /bin/uv
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md CHANGELOG.md LICENSE ./
COPY ckpt_cli ckpt_cli
COPY backends backends
COPY share share
RUN uv venv /opt/ckpt && \
    uv pip install --no-cache --python /opt/ckpt/bin/python --compile-bytecode '.[all]'

FROM python:3.13-slim-bookworm
LABEL org.opencontainers.image.source="https://github.com/langgraph-ckpt/ckpt" \
      org.opencontainers.image.description="Inspect, verify and roll back LangGraph checkpoints" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /opt/ckpt /opt/ckpt
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin ckpt && \
    install -d -o ckpt -g ckpt -m 0700 /state
ENV PATH=/opt/ckpt/bin:$PATH \
    HOME=/tmp \
    XDG_STATE_HOME=/state \
    PYTHONUNBUFFERED=1
USER 10001
WORKDIR /tmp
VOLUME ["/state"]
ENTRYPOINT ["ckpt"]
CMD ["--help"]
