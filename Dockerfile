# seriatim in a container, in two sizes. Both run as the user `seriatim`, in /project, where your files are mounted.
#
#     docker build --target box -t seriatim:box .    # the message box, its workers and the commands
#     docker build -t seriatim:spark .               # that, and pipelines: Java and PySpark
#
# The packages are those of constraints.txt, which the tests run with.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN PIP_CONSTRAINT=constraints.txt pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && cp constraints.txt /wheels/

FROM python:${PYTHON} AS box
# The user who may write what is mounted: --build-arg UID=$(id -u)
ARG UID=1000
ENV PYTHONUNBUFFERED=1
RUN useradd --uid "${UID}" --create-home seriatim
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt /wheels/*.whl
WORKDIR /project
USER ${UID}:${UID}
ENTRYPOINT ["seriatim"]
CMD ["--help"]

FROM box AS spark
ARG UID=1000
USER 0:0
# Any Java 17 of this Debian will do.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
RUN set -- /wheels/*.whl && pip install --no-cache-dir --constraint /wheels/constraints.txt "$1[spark]"
USER ${UID}:${UID}
