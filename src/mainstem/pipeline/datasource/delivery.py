"""Sends a staged batch from the driver: its requests in order, as an idempotent producer that may repeat them."""

from __future__ import annotations

import hashlib
import queue
import threading
import zlib
from collections.abc import Iterator
from urllib.parse import quote

from mainstem import limits
from mainstem.errors import BadOption, MainstemError, RequestRefused, StageLost
from mainstem.pipeline.cache_dir import user_cache_dir
from mainstem.pipeline.datasource.events import submit_events
from mainstem.pipeline.datasource.options import WriteOptions
from mainstem.pipeline.datasource.staging_directory import Frame, Manifest, StagedFile, StagingDirectory
from mainstem.pipeline.http_client import HttpClient, Reply

REFUSALS = frozenset({403, 404, 409})


def open_staging(options: WriteOptions, producer: str) -> StagingDirectory:
    """Open the staging directory. The default has one directory per server, since servers do not share writes."""
    server = hashlib.sha256(options.server.url.encode()).hexdigest()[:16]
    return StagingDirectory(options.staging or str(user_cache_dir("staging", server)), producer)


def commit_staged(options: WriteOptions, producer: str, staged: list[StagedFile], batch: int) -> None:
    """Send the files that the tasks of a batch have staged, or what an earlier attempt has begun to send."""
    staging = open_staging(options, producer)
    manifest = staging.read_manifest(batch)
    if manifest is not None and options.producer_id is not None:
        _check_target(options, manifest)
        if manifest.done and not is_still_stored(options, manifest):
            staging.delete_manifest(batch)
            manifest = None
    if manifest is None:
        files = [file for file in staged if file.frames]
        if not files:
            staging.clean(batch)
            return
        manifest = staging.write_manifest(batch, Manifest(options.target, files))
    if not manifest.done:
        try:
            staging.mark_done(batch, manifest, deliver(options, staging, manifest, producer, batch))
        except StageLost:
            now = staging.read_manifest(batch)
            if now is None or not now.done:  # otherwise another driver has finished the same batch
                raise
    staging.clean(batch)


def _check_target(options: WriteOptions, manifest: Manifest) -> None:
    if manifest.target != options.target:
        raise BadOption(
            f"producerId {options.producer_id!r} has already written to {manifest.target}: choose another producerId"
        )


def deliver(
    options: WriteOptions, staging: StagingDirectory, manifest: Manifest, producer: str, epoch: int
) -> dict[str, str]:
    """Send everything, and return the end offsets of some streams. It may be repeated: the server skips duplicates."""
    frames = (frame for file in manifest.files for frame in staging.read_frames(file))
    if options.into_events:
        return submit_events(options, frames, options.client_id or f"spark-{producer}")
    if options.stream is not None:
        with Appender(options, producer, epoch) as appender:
            for frame in frames:
                appender.append(frame)
        return appender.reached
    return _append_concurrently(options, frames, producer, epoch)


def is_still_stored(options: WriteOptions, manifest: Manifest) -> bool:
    """Return whether the server still has a batch that is done. A stream may be deleted, or the server replaced."""
    with HttpClient(options.server) as client:
        for name, end in manifest.reached.items():
            partition = f"/v1/partition/{quote(name, safe='')}"
            target = partition if options.into_events else options.server.stream_url(name)
            reply = client.request("HEAD", target, allowed=frozenset({404, 410}))
            now = reply.headers.get("Stream-Next-Offset", "")
            if reply.status >= 400 or now < end or now.partition("_")[0] != end.partition("_")[0]:
                return False
    return True


class Appender:
    """Appends to streams over one connection. The sequence number of a chunk is its number within its stream."""

    def __init__(self, options: WriteOptions, producer: str, epoch: int) -> None:
        self._content_type = options.content_type
        self._client = HttpClient(options.server)
        self._producer, self._epoch = producer, epoch
        self._next: dict[str, int] = {}
        self._stored: dict[str, int] = {}
        self.reached: dict[str, str] = {}

    def __enter__(self) -> Appender:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def append(self, frame: Frame) -> None:
        seq = self._next.get(frame.name, 0)
        self._next[frame.name] = seq + 1
        if seq <= self._stored.get(frame.name, -1):
            return
        reply = self._post(frame, seq)
        if reply.status == 404 and reply.problem.get("code") == "stream_not_found":
            self._client.request("PUT", self._url(frame), headers={"Content-Type": self._content_type})
            reply = self._post(frame, seq)
        if reply.status >= 400:
            raise _explain(reply, frame.name, self._producer, self._epoch)
        self._stored[frame.name] = int(reply.headers["Producer-Seq"])
        if frame.name in self.reached or len(self.reached) < limits.SINK_ENDS_KEPT:
            self.reached[frame.name] = reply.headers["Stream-Next-Offset"]

    def _url(self, frame: Frame) -> str:
        return self._client.server.stream_url(frame.name)

    def _post(self, frame: Frame, seq: int) -> Reply:
        headers = {
            "Content-Type": self._content_type,
            "Producer-Id": self._producer,
            "Producer-Epoch": str(self._epoch),
            "Producer-Seq": str(seq),
        }
        return self._client.request("POST", self._url(frame), headers=headers, body=frame.body, allowed=REFUSALS)


def _explain(reply: Reply, stream: str, producer: str, epoch: int) -> RequestRefused:
    code = reply.problem.get("code")
    advice = {
        "stale_epoch": "The checkpoint is older than what was written: it was restored, or two queries use copies of "
        "it. Start with a new checkpoint",
        "producer_gap": "The stream was deleted and created again during the write. Start with a new checkpoint",
        "stream_closed": "Write to another stream",
        "content_type_mismatch": "Set contentType to that of the stream",
    }.get(str(code), "")
    text = f"{reply.status} {code}: {reply.problem.get('detail', '')}"
    return RequestRefused(
        f"stream {stream!r} refused batch {epoch} of {producer}: {text}. {advice}".rstrip(". "),
        refusal=code,
        refused=reply.status,
    )


def _append_concurrently(options: WriteOptions, frames: Iterator[Frame], producer: str, epoch: int) -> dict[str, str]:
    """Append over a few connections. All chunks of a stream use the same one, which keeps their order."""
    threads = [_AppendThread(options, producer, epoch) for _ in range(limits.SINK_CONNECTIONS)]
    try:
        for frame in frames:
            threads[zlib.crc32(frame.name.encode()) % len(threads)].put(frame)
    finally:
        for thread in threads:
            thread.end()
    for thread in threads:
        thread.check()
    return {name: end for thread in threads for name, end in thread.reached.items()}


class _AppendThread:
    def __init__(self, options: WriteOptions, producer: str, epoch: int) -> None:
        self._frames: queue.Queue[Frame | None] = queue.Queue(limits.SINK_CONNECTION_CHUNKS_MAX)
        self._error: MainstemError | None = None
        self._appender = Appender(options, producer, epoch)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def reached(self) -> dict[str, str]:
        return self._appender.reached

    def put(self, frame: Frame) -> None:
        self.check()
        self._frames.put(frame)

    def end(self) -> None:
        self._frames.put(None)
        self._thread.join()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        with self._appender as appender:
            while (frame := self._frames.get()) is not None:
                if self._error is not None:
                    continue  # keep draining the queue, so that `put` does not block
                try:
                    appender.append(frame)
                except MainstemError as error:
                    self._error = error
