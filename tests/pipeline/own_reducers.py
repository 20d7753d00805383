"""Reducers of a user's own, as a file that is brought to Spark's workers."""


def collect(state, message):
    """Not commutative: the order of messages shows."""
    return [*(state or []), message.event.get("v", message.event)]


def describe(state, message):
    facts = [message.id, message.client_id, message.partitions, message.stream, message.event]
    return [*(state or []), [*facts, message.committed_at, message.position]]


def fail(state, message):
    if message.event.get("v") == "bad":
        raise ValueError("no such thing")
    return state
