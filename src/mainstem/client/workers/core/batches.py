"""The batch that a worker hands to its function."""

from dataclasses import dataclass

from mainstem.client.core.results import Batch


@dataclass(frozen=True, kw_only=True)
class WorkerBatch(Batch):
    """New data of one stream, from `start_offset` to `offset`. `messages`, `text` and `data` hold it."""

    stream: str
    start_offset: str
    """Where the data begins. When data is delivered again, it begins here again, but may reach further."""
    attempt: int = 1
    """How often this worker process has called its function with data from `start_offset`, this call included."""
    generation: int
    """The number of the wake. A later wake of the subscription has a greater one."""
    trimmed: bool = False
    """Whether the stream was trimmed, or deleted and created again, so that data before this batch may be missing."""
