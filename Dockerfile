# The server of bundles: docker build -t txexport . ; for NVIDIA's GPUs, --build-arg RUNTIME=gpu.
ARG BASE=python:3.13.9-slim-bookworm

FROM ${BASE} AS build
ARG RUNTIME=cpu
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY txexport txexport
COPY models/txmodels models/txmodels
COPY graphs/txgraphs graphs/txgraphs
RUN python -m venv /opt/txexport \
    && /opt/txexport/bin/pip install --no-cache-dir --constraint constraints.txt \
       ".[${RUNTIME},cli,serve,constrained,image,audio]" \
    && /opt/txexport/bin/txexport --version

FROM ${BASE}
COPY --from=build /opt/txexport /opt/txexport
ENV PATH=/opt/txexport/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=5m --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["txexport", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/bundles/model"]
