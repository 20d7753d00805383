"""Random histories for each reducer, and the states that they fold into without Spark."""

import json
import random
from typing import Any

from mainstem.pipeline.jobs.snapshot.reducers import Message, apply_entry


def random_message(chance: random.Random, reducer: str) -> dict:
    key, value = chance.choice("abcdé"), chance.choice([None, 1, 1.0, "x", [1, {"y": None}], {"z": chance.random()}])
    if reducer == "state":
        roll = chance.random()
        if roll < 0.04:
            return {"headers": {"control": "reset"}}
        if roll < 0.1:
            return chance.choice([{"headers": {"control": "snapshot-end"}}, {"type": "t"}, {"headers": {}}])
        operation = chance.choice(["insert", "update", "upsert", "delete"])
        change = {"type": chance.choice("tu"), "key": key, "headers": {"operation": operation}}
        return change if operation == "delete" else change | {"value": value}
    if reducer == "tree":
        return (
            {"type": "set", "payload": {"target": "t", "value": {"items": {}, "tree": []}}}
            if (chance.random() < 0.05)
            else _random_action(chance)
        )
    return chance.choice([{"k": key, "v": value}, {"k": key, "v": value}, {"other": 1}])


def _random_action(chance: random.Random) -> dict:
    node, parent = chance.choice("abcdef"), chance.choice(["_root", *"abcdef"])
    place = {"parent": parent, "position": chance.choice(["first", "last"])}
    return chance.choice(
        [
            {"type": "treePush", "payload": {"target": "t", "value": {"id": node, "n": 1}, "options": place}},
            {"type": "treePush", "payload": {"target": "t", "value": {"id": node}, "options": {"parent": "_root"}}},
            {"type": "treeMove", "payload": {"target": "t", "options": {"id": node, **place}}},
            {"type": "treeUpdate", "payload": {"target": "t", "value": {"m": 2}, "options": {"id": node}}},
            {"type": "treeDelete", "payload": {"target": "t", "options": {"id": node}}},
            {"type": "set", "payload": {"target": "title", "value": chance.random()}},
            {"type": "set", "payload": {"target": "t", "value": {"items": {}, "tree": []}}},
        ]
    )


def random_history(log, chance: random.Random, reducer: str, partitions, streams, *, messages: int, client: str):
    """Write messages to random partitions (sometimes several at once) and streams, one after the other."""
    for number in range(messages // 5):
        some = [random_message(chance, reducer) for _ in range(5)]
        if chance.random() < 0.5:
            names = chance.sample(partitions, chance.randint(1, len(partitions)))
            log.submit(names, some, client=f"{client}-{number}")
        else:
            log.append(chance.choice(streams), some, at_once=chance.randint(1, 5))


def fold(reducer, rows: list[dict], state: Any = None) -> Any:
    """Return the state after these rows, starting from the initial state or from that of a snapshot."""
    state = reducer.begin(None if state is None else json.dumps(state).encode())
    for row in rows:
        if hasattr(reducer, "extract"):
            entry = reducer.extract(row["data"].encode())
            if entry is not None:
                apply_entry(state, entry)
        else:
            message = Message(json.loads(row["data"]), row["committed_id"], row.get("position", 0), "")
            state, _ = reducer.step(state, message)
    return json.loads(reducer.encode(state))
