# docker build -f deploy/pipeline.Dockerfile -t mainstem-pipeline .
FROM python:3.13-slim
COPY requirements/pipeline.txt /src/requirements/pipeline.txt
RUN pip install --no-cache-dir --require-hashes -r /src/requirements/pipeline.txt
COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
RUN pip install --no-cache-dir --no-deps --no-build-isolation /src && rm -r /src \
    && useradd --system --uid 10001 --no-create-home mainstem \
    && install -d -o 10001 /var/lib/mainstem-pipeline /var/cache/mainstem-pipeline
ENV XDG_CACHE_HOME=/var/cache/mainstem-pipeline
USER 10001
WORKDIR /var/lib/mainstem-pipeline
EXPOSE 9464
ENTRYPOINT ["mainstem"]
CMD ["pipeline", "run", "/etc/mainstem/pipeline.toml"]
