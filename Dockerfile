# Seqloom on a CPU:
#     docker build --tag seqloom .
#     docker run --rm --volume "$PWD:/data" --user "$(id -u):$(id -g)" seqloom demo
# --build-arg TORCH_CPU_INDEX=URL names an index with the CPU builds of torch; without it, the image holds the CUDA packages, too.

FROM python:3.13-slim AS build
ARG TORCH_CPU_INDEX=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_EXTRA_INDEX_URL=${TORCH_CPU_INDEX}
WORKDIR /build
RUN python -m venv /venv
# Requirements come first: they are installed again only when they change.
COPY pyproject.toml constraints.txt ./
RUN /venv/bin/python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
    extras = project['optional-dependencies']; \
    print(*project['dependencies'], *extras['plots'], *extras['digits'], *extras['images'], *extras['audio'], \
        *extras['export'], *extras['serve'], sep='\n')" \
    >requirements.txt \
    && /venv/bin/python -m pip install --constraint constraints.txt --requirement requirements.txt setuptools
COPY README.md LICENSE ./
COPY src src
RUN /venv/bin/python -m pip install --no-build-isolation --no-deps .

FROM python:3.13-slim
COPY --from=build /venv /venv
# Kernels and fonts are cached where any user may write, so that --user works.
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 SEQLOOM_CACHE=/tmp/seqloom MPLCONFIGDIR=/tmp/matplotlib
RUN useradd --create-home --uid 1000 seqloom && mkdir /data && chown seqloom /data
USER 1000
WORKDIR /data
ENTRYPOINT ["seqloom"]
CMD ["--help"]
