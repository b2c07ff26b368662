# Image of Headway: docker build -f deploy/docker/headway.Dockerfile -t headway .
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/headway \
 && /opt/headway/bin/pip install --no-cache-dir --disable-pip-version-check ".[kubernetes]" \
 && /opt/headway/bin/pip uninstall --yes pip setuptools

FROM python:3.11-slim
RUN useradd --uid 1000 --create-home --home-dir /data headway
COPY --from=build /opt/headway /opt/headway
ENV PATH=/opt/headway/bin:$PATH PYTHONUNBUFFERED=1 HEADWAY_DATA=/data
USER 1000:1000
WORKDIR /data
ENTRYPOINT ["headway"]
CMD ["--help"]
