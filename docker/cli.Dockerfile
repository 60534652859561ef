# The command kbsearch. `make image` prepares build/docker/ and builds it; BASE is any image with Debian's C library and the Python that the wheels are for.
# Nothing is downloaded here.
ARG BASE=python:3.13-slim-trixie
FROM ${BASE} AS installed
LABEL kbsearch.stage=installed
COPY build/docker/wheels /wheels
RUN python3 -m venv /opt/kbsearch \
    && /opt/kbsearch/bin/python -m pip install --quiet --no-cache-dir --no-index --no-deps /wheels/*.whl
COPY build/docker/kbsearch /wheel
RUN /opt/kbsearch/bin/python -m pip install --quiet --no-cache-dir --no-index --no-deps /wheel/*.whl \
    && /opt/kbsearch/bin/python -m pip check

FROM ${BASE}
ARG VERSION=0
LABEL org.opencontainers.image.title="kbsearch-cli" \
      org.opencontainers.image.description="The command kbsearch: install, ingest and search" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="MIT"
COPY --from=installed /opt/kbsearch /opt/kbsearch
COPY docker/cli-entrypoint.sh /usr/local/bin/
RUN useradd --uid 1000 --create-home kbsearch
USER kbsearch
WORKDIR /home/kbsearch
ENV PATH=/opt/kbsearch/bin:$PATH LANG=C.UTF-8
ENTRYPOINT ["cli-entrypoint.sh"]
CMD ["--help"]
