"""A user's own reducers, in a file that Spark copies to its workers."""


def collect(state, message):
    """Fold in a way that is not commutative, so that the order of messages matters."""
    return [*(state or []), message.event.get("v", message.event)]


def describe(state, message):
    facts = [message.id, message.client_id, message.partitions, message.stream, message.event]
    return [*(state or []), [*facts, message.committed_at, message.position]]


def fail(state, message):
    if message.event.get("v") == "bad":
        raise ValueError("no such thing")
    return state
