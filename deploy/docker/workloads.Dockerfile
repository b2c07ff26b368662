# Image of the built-in trainings. They need only numpy and the SDK:
#   docker build -f deploy/docker/workloads.Dockerfile -t headway-workloads .
FROM python:3.11-slim AS build
WORKDIR /src
COPY src/headway/__init__.py headway/__init__.py
COPY src/headway/errors.py headway/errors.py
COPY src/headway/sdk headway/sdk
COPY src/headway/trainings headway/trainings
RUN pip install --no-cache-dir --disable-pip-version-check --target /opt/headway "numpy>=1.26" \
 && rm -rf /opt/headway/bin /opt/headway/numpy/*/tests \
 && cp -r headway /opt/headway/headway \
 && python -m compileall -q /opt/headway

FROM python:3.11-slim
RUN useradd --uid 1000 --create-home headway
COPY --from=build /opt/headway /opt/headway
ENV PYTHONPATH=/opt/headway PYTHONUNBUFFERED=1
USER 1000:1000
WORKDIR /tmp
CMD ["python3", "-m", "headway.trainings", "--help"]
