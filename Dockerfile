# A host of booksan, or a client. Three layers on the base: the libraries, the code, the user's place.
# The libraries are those of requirements.lock, checked by their hashes. For a build without network
# put the wheels of all libraries into wheels/ (scripts/docker does); then those are taken.
# The builder has the same Python as the base, and may have more tools; none of them stay.
ARG BASE=python:3.11-slim
ARG BUILDER=python:3.11

FROM ${BUILDER} AS libraries
USER 0:0
# The file that is always there lets the copy succeed when there are no wheels.
COPY pyproject.toml requirements.lock* wheels* /wheels/
# pip stays behind in this stage, and so do the tests, headers, types and symbols of libraries.
# Those of numpy are broken by strip, so only the two large ones are touched. Compiled ahead is
# what gets imported: most modules of most libraries never are.
RUN python3 -m venv /tools && python3 -m venv --without-pip /opt/booksan \
    && python3 -c "import tomllib; found = tomllib.load(open('/wheels/pyproject.toml', 'rb'))['project']; \
print('\n'.join(found['dependencies']))" >/wheels/needed.txt \
    && if ls /wheels/*.whl >/dev/null 2>&1; then from="--no-index --find-links /wheels -r /wheels/needed.txt"; \
       elif [ -e /wheels/requirements.lock ]; then from="--require-hashes -r /wheels/requirements.lock"; \
       else from="-r /wheels/needed.txt"; fi \
    && /tools/bin/pip --python /opt/booksan/bin/python --disable-pip-version-check \
        install --no-cache-dir --no-compile $from \
    && rm -rf /opt/booksan/lib/python3*/site-packages/pip /opt/booksan/bin/pip* \
    && find /opt/booksan/lib -type d \( -name tests -o -name test -o -name include \) -prune \
        -exec rm -rf {} + \
    && find /opt/booksan/lib -type f \( -name '*.pyi' -o -name '*.pxd' -o -name '*.a' \) -delete \
    && rm -rf /opt/booksan/lib/python3*/site-packages/numpy/distutils \
        /opt/booksan/lib/python3*/site-packages/numpy/f2py \
    && if command -v strip >/dev/null; then \
        find /opt/booksan/lib/python3*/site-packages/*polars* /opt/booksan/lib/python3*/site-packages/zstandard \
            -name '*.so' -type f -exec strip --strip-unneeded {} + ; fi \
    && /opt/booksan/bin/python -c "import docker, httpx, msgspec, numpy, pika, polars, psutil, rich.live, \
rich.progress, rich.table, sqlite_utils, starlette.applications, starlette.routing, textblob, typer, urllib3, uvicorn.main, \
uvicorn.protocols.http.httptools_impl, zstandard; polars.DataFrame({'a': [1]}).lazy().collect()" \
    && printf '#!/bin/sh\nexec /opt/booksan/bin/python -m booksan "$@"\n' >/opt/booksan/bin/booksan \
    && chmod 755 /opt/booksan/bin/booksan

FROM ${BASE} AS code
COPY booksan /app/booksan
COPY client/booksan_client /app/booksan_client
COPY client/booksan_common /app/booksan_common
COPY hosts /app/hosts
RUN python3 -m compileall -q /app

FROM ${BASE}
# Numbers, since names may be taken; the directory is the mount point of the host's disk, which
# takes its owner over.
RUN mkdir -p /data && chown 10001:10001 /data && chmod 700 /data
COPY --from=libraries /opt/booksan /opt/booksan
COPY --from=code /app /app
ENV PATH=/opt/booksan/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/app PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    HOME=/data XDG_STATE_HOME=/data/state
USER 10001:10001
WORKDIR /data
VOLUME /data
STOPSIGNAL SIGTERM
# Replaced by the supervisor, which is process 1, gets the signals and reaps.
ENTRYPOINT ["/opt/booksan/bin/python", "-m", "booksan"]
CMD ["--help"]
