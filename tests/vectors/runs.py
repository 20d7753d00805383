"""Runs the cases with the Python client. Each function returns its case with the outcomes that it saw."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mainstem.client.offline.core.effects import Effect, Load, Pause, Report, Save, Send
from mainstem.client.offline.core.records import (
    Applied,
    Checkpoint,
    Commit,
    Committed,
    Diverged,
    Draft,
    Event,
    Facts,
    Followed,
    Refusal,
    RejectedDraft,
    Snapshot,
    StoreUpdate,
)
from mainstem.client.offline.core.session import Session
from mainstem.client.offline.stores.contract import ClientStore, Found
from mainstem.client.offline.stores.memory import MemoryClientStore
from mainstem.client.offline.submissions import make_draft
from mainstem.client.offline.views import View, Views
from mainstem.client.sync_protocol.errors import SyncClientError
from mainstem.client.sync_protocol.messages import FieldFault
from mainstem.errors import ValidationFailed
from mainstem.sync.protocol.canonical import HASHED, canonicalize, content_hash, decode_event
from mainstem.sync.protocol.partitions import normalise, normalise_filter
from tests.vectors.files import Json

OUTCOMES = ("effects", "raises", "phase", "found", "applied", "canonical", "invalid", "same", "normalised", "count")


def compact(value: Any) -> bytes:
    """Return JSON as the clients write it: without spaces, in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def inputs(step: Json) -> Json:
    """Return a step without its outcomes."""
    return {key: value for key, value in step.items() if key not in OUTCOMES}


# Updates of a store


def update_of(given: Json) -> StoreUpdate:
    return StoreUpdate(
        reset=given.get("reset", False),
        snapshots=tuple(
            Snapshot(item["partition"], item["committed_id"], compact(item["state"]))
            for item in given.get("snapshots", ())
        ),
        events=tuple(
            Committed(
                item["committed_id"],
                item["id"],
                item["client_id"],
                tuple(item["partitions"]),
                compact(item["event"]),
                item["committed_at"],
            )
            for item in given.get("events", ())
        ),
        commits=tuple(
            Commit(item["id"], item["committed_id"], item["committed_at"]) for item in given.get("commits", ())
        ),
        refusals=tuple(
            Refusal(
                item["id"],
                item["reason"],
                tuple(FieldFault(fault["field"], fault["message"]) for fault in item.get("errors", ())),
            )
            for item in given.get("refusals", ())
        ),
        cursor=given.get("cursor"),
        fetched=tuple((name, since) for name, since in given.get("fetched", ())),
        joined=tuple(given.get("joined", ())),
        left=tuple(given.get("left", ())),
        truncated=tuple(given.get("truncated", ())),
    )


def describe_update(update: StoreUpdate) -> Json:
    """Return the fields of an update that are not at their default."""
    said: Json = {
        "reset": update.reset,
        "snapshots": [
            {"partition": item.partition, "committed_id": item.committed_id, "state": json.loads(item.state)}
            for item in update.snapshots
        ],
        "events": [
            {
                "committed_id": item.committed_id,
                "id": item.id,
                "client_id": item.client_id,
                "partitions": list(item.partitions),
                "event": json.loads(item.event),
                "committed_at": item.committed_at,
            }
            for item in update.events
        ],
        "commits": [json.loads(msgspec.json.encode(item)) for item in update.commits],
        "refusals": [json.loads(msgspec.json.encode(item)) for item in update.refusals],
        "cursor": update.cursor,
        "fetched": [list(item) for item in update.fetched],
        "joined": list(update.joined),
        "left": list(update.left),
        "truncated": list(update.truncated),
    }
    return {key: value for key, value in said.items() if value is not None and value is not False and value != []}


# The session


def run_session(case: Json) -> Json:
    facts = case["facts"]
    partitions = tuple(Followed(item["name"], item["since"]) for item in facts["partitions"])
    session = Session(
        Facts(facts["cursor"], facts["highest"], partitions, facts["drafts"]),
        case["client_id"],
        case["token"],
        page_limit=case["page_limit"],
        is_certain=case["is_certain"],
    )
    return {**case, "steps": [step_session(session, inputs(step)) for step in case["steps"]]}


def step_session(session: Session, step: Json) -> Json:
    [(call, argument)] = step.items()
    calls: dict[str, Callable[[], list[Effect]]] = {
        "open": session.open,
        "receive": lambda: session.receive(compact(argument)),
        "receive_text": lambda: session.receive(argument.encode("utf-8", "surrogatepass")),
        "offer": lambda: session.offer([offered(item) for item in argument]),
        "send_drafts": session.send_drafts,
        "resume": session.resume,
        "follow": lambda: session.follow(argument),
        "unfollow": lambda: session.unfollow(argument),
    }
    try:
        outcome: Json = {"effects": [describe_effect(effect) for effect in calls[call]()]}
    except SyncClientError as error:
        outcome = {"raises": error.code}
    return {**step, **outcome, "phase": session.phase.value}


def offered(item: Json) -> Draft:
    event = compact(item["event"])
    return Draft(item["clock"], item["id"], tuple(item["partitions"]), event, content_hash(item["partitions"], event))


def describe_effect(effect: Effect) -> Json:
    match effect:
        case Send(text):
            assert compact(json.loads(text)) == text, "the encoding is compact, with nothing escaped needlessly"
            return {"send": json.loads(text)}
        case Save(update):
            return {"save": describe_update(update)}
        case Load(items_max, bytes_max):
            return {"load": {"items_max": items_max, "bytes_max": bytes_max}}
        case Pause(seconds):
            return {"pause_s": seconds}
        case Report(error):
            return {"report": error.code}


# The canonical form, and names of partitions


def run_canonical(case: Json) -> Json:
    if "a" in case:
        return {"name": case["name"], "same": digest(case["a"]) == digest(case["b"]), "a": case["a"], "b": case["b"]}
    asked = {key: case[key] for key in ("name", "partitions", "event_text")}
    try:
        names = normalise(case["partitions"])
        form = canonicalize(decode_event(text_of(case)))
    except ValidationFailed as fault:
        return {**asked, "invalid": fault.field}
    return {**asked, "canonical": (HASHED % (form, compact(names))).decode()}


def digest(item: Json) -> bytes:
    return content_hash(normalise(item["partitions"]), text_of(item))


def text_of(item: Json) -> bytes:
    text: str = item["event_text"]
    return text.encode("utf-8", "surrogatepass")


def run_partitions(case: Json) -> Json:
    asked = {key: case[key] for key in ("name", "for", "partitions")}
    try:
        names = {"event": normalise, "filter": normalise_filter}[case["for"]](case["partitions"])
    except ValidationFailed as fault:
        return {**asked, "invalid": fault.field}
    return {**asked, "normalised": list(names)}


# The store


def run_store(case: Json, make: Callable[[], ClientStore]) -> Json:
    """Run a case over a store; `make` returns the same store each time it is called, as a file does."""
    client_id = case["client_id"]
    steps: list[Json] = []
    store = make()
    store.open(client_id)
    for step in case["steps"]:
        if "reopen" in step:
            store.close()
            store = make()
            store.open(client_id)
            steps.append(step)
        else:
            steps.append(step_store(store, step))
    store.close()
    return {**case, "steps": steps}


def step_store(store: ClientStore, step: Json) -> Json:
    """Run one step. A step is named by its first key, because `facts` is both a call and an outcome."""
    call, argument = next(iter(step.items()))
    asked: Json = {call: argument}
    match call:
        case "follow":
            return {**asked, "facts": describe_facts(store.follow(argument))}
        case "facts":
            return {**asked, "found": describe_facts(store.facts())}
        case "add_drafts":
            return {**asked, "found": [describe_kept(item) for item in store.add_drafts(drafts_of(argument))]}
        case "apply":
            try:
                applied = store.apply([update_of(item) for item in argument])
            except Diverged:
                return {**asked, "raises": "diverged"}
            return {**asked, "applied": describe_applied(applied)}
        case "events":
            found = store.events(argument["partitions"], argument["after"], argument["until"], argument["limit"])
            return {**asked, "found": [event.committed_id for event in found]}
        case "drafts":
            waiting = store.drafts(argument["after"], argument["items_max"], argument["bytes_max"])
            return {**asked, "found": [draft.id for draft in waiting]}
        case "find":
            return {**asked, "found": kind_of(store.find(argument))}
        case "rejections":
            return {**asked, "found": [rejection.id for rejection in store.rejections(argument)]}
        case "dismiss":
            return {**asked, "count": store.dismiss(argument)}
        case "snapshots":
            snapshots = store.snapshots(argument)
            return {
                **asked,
                "found": [{"partition": item.partition, "committed_id": item.committed_id} for item in snapshots],
            }
        case "save_checkpoint":
            names = argument["partitions"]
            store.save_checkpoint(
                Checkpoint(
                    argument["name"],
                    argument["version"],
                    None if names is None else tuple(names),
                    argument["committed_id"],
                    compact(argument["state"]),
                )
            )
            return asked
        case "load_checkpoint":
            checkpoint = store.load_checkpoint(argument)
            return {**asked, "found": None if checkpoint is None else checkpoint.committed_id}
    raise AssertionError(f"unknown step {call!r}")


def drafts_of(items: list[Json]) -> list[Draft]:
    return [make_draft(item["id"], item["partitions"], compact(item["event"])) for item in items]


def describe_facts(facts: Facts) -> Json:
    return {
        "cursor": facts.cursor,
        "highest": facts.highest,
        "partitions": [{"name": item.name, "since": item.since} for item in facts.partitions],
        "drafts": facts.drafts,
    }


def describe_kept(found: Found | SyncClientError) -> Json:
    match found:
        case Draft():
            return {"draft": found.clock}
        case Committed():
            return {"committed": found.committed_id}
        case RejectedDraft():
            return {"rejected": found.id}
        case _:
            return {"error": found.code}


def kind_of(found: Found | None) -> str | None:
    kinds = {Draft: "draft", Committed: "committed", RejectedDraft: "rejected"}
    return None if found is None else kinds[type(found)]


def describe_applied(applied: Applied) -> Json:
    """Return the fields that are not at their default."""
    said: Json = {
        "events": applied.events,
        "first": applied.first,
        "last": applied.last,
        "lowest": applied.lowest,
        "settled": [list(item) for item in applied.settled],
        "rejected": [item.id for item in applied.rejected],
        "truncated": applied.truncated,
        "reset": applied.reset,
    }
    return {key: value for key, value in said.items() if value}


# Views


def collect(state: list[Any], event: Event) -> list[Any]:
    """The reducer of all view vectors: it shows every event that it was given, in order."""
    state.append([event.committed_id, event.event])
    return state


def run_view(case: Json, store: ClientStore | None = None) -> Json:
    store = store or MemoryClientStore()
    store.open(case["client_id"])
    store.follow(case["follow"])
    said = case["view"]
    names = None if said["partitions"] is None else tuple(said["partitions"])
    views = Views(store, case["client_id"])
    views.register(View(said["name"], collect, b"[]", names, said["version"], None))
    steps: list[Json] = []
    for step in case["steps"]:
        if "apply" in step:
            views.invalidate(store.apply([update_of(item) for item in step["apply"]]))
            steps.append({"apply": step["apply"]})
        elif "add_drafts" in step:
            store.add_drafts(drafts_of(step["add_drafts"]))
            steps.append({"add_drafts": step["add_drafts"]})
        else:
            steps.append({"state": views.read(said["name"])})
    store.close()
    return {**case, "steps": steps}


def run_case(path: Path, case: Json) -> Json:
    """Run a case of a file, with a store in memory."""
    if path.parent.name == "session":
        return run_session(case)
    if path.name == "store.json":
        store = MemoryClientStore()
        return run_store(case, lambda: store)
    runs = {"canonical.json": run_canonical, "partitions.json": run_partitions, "views.json": run_view}
    return runs[path.name](case)
