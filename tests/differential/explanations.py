"""Every known difference between Mainstem and another server, and who is right. A difference that is not here is a bug.

Sections are those of the Durable Streams protocol. Each explanation has a script that shows the difference: when a new
version of the other server no longer has it, the test fails, and the explanation can go.
"""

import json
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.differential.comparison import Difference
from tests.differential.exchanges import NO_REPLY
from tests.differential.faults import is_malformed, list_conflicts
from tests.differential.scripts import BAD_JSON, ETAG, JSON, OFFSET, TEXT, Step, request

NODE: Final = "node"
RUST: Final = "rust"
FIRST_INCARNATION: Final = "0" * 16 + "_"
PRODUCER: Final = {"producer_id": "p", "producer_epoch": "0", "producer_seq": "0"}


@dataclass(frozen=True)
class Explanation:
    """`applies` recognises the difference, and `script` shows it."""

    peers: tuple[str, ...]
    why: str
    applies: Callable[[Difference], bool]
    script: Sequence[Step]


def put(content_type: str = TEXT, body: bytes = b"", **headers: str) -> Step:
    return request("PUT", "s0", "", body, content_type=content_type, **headers)


def post(body: bytes, content_type: str = TEXT, **headers: str) -> Step:
    return request("POST", "s0", "", body, content_type=content_type, **headers)


def get(query: str = "?offset=-1", **headers: str) -> Step:
    return request("GET", "s0", query, b"", **headers)


def produce(**headers: str) -> Step:
    return post(b"a", **PRODUCER, **headers)


def fork(offset: str | None = None, sub_offset: str | None = None) -> Step:
    return request(
        "PUT",
        "f0",
        stream_forked_from="/v1/stream/{s0}",
        stream_fork_offset=offset,
        stream_fork_sub_offset=sub_offset,
    )


DELETE: Final = request("DELETE", "s0")
HEAD: Final = request("HEAD", "s0")


def _is_status(difference: Difference, ours: Sequence[int], theirs: Sequence[int]) -> bool:
    return difference.field == "status" and difference.our_status in ours and difference.their_status in theirs


def _matches_any(difference: Difference) -> bool:
    tags = difference.step.header("if-none-match") or ""
    return _is_status(difference, [304], [200]) and (tags == "*" or "," in tags)


def _is_same_json(difference: Difference) -> bool:
    if difference.field != "body":
        return False
    try:
        return bool(json.loads(difference.ours) == json.loads(difference.theirs))
    except ValueError:
        return False


def _has_same_events(difference: Difference) -> bool:
    if difference.field != "body" or "live=sse" not in difference.step.query:
        return False
    return _read_events(difference.ours) == _read_events(difference.theirs)


def _read_events(text: str) -> tuple[object, str]:
    """Return the content of all data events, and the control events without upToDate."""
    data: list[str] = []
    control = ""
    for event in text.split("\n\n"):
        name, *lines = event.split("\n")
        value = "\n".join(line.removeprefix("data:") for line in lines)
        if name == "event: data":
            data.append(value)
        else:
            control += value.replace(',"upToDate":true', "")
    return _join(data), control


def _join(data: list[str]) -> object:
    """Return the data of all events together: JSON messages, bytes in base64, or text."""
    try:
        return [message for part in data for message in json.loads(part)]
    except (ValueError, TypeError):
        pass
    try:
        return b"".join(b64decode(part, validate=True) for part in data)
    except ValueError:
        return "".join(data)


def _closes_in_capitals(step: Step) -> bool:
    value = step.header("stream-closed") or ""
    return value.lower() == "true" != value


def _has_capitals(step: Step) -> bool:
    return step.header("content-type") == "Application/JSON"


def _has_bad_media_type(difference: Difference) -> bool:
    return difference.step.method in ("PUT", "POST") and difference.step.header("content-type") == "nonsense"


def _has_odd_lifetime(difference: Difference) -> bool:
    step = difference.step
    odd = step.header("stream-ttl") in ("", "9007199254740992") or step.header("stream-expires-at") == "2099-01-31"
    return odd and _is_status(difference, [400], [200, 201, 409])


def _names_another_incarnation(difference: Difference) -> bool:
    """Recognise an offset of a stream that was deleted and created again at the same path."""
    if not any(step.method == "DELETE" for step in difference.earlier):
        return False
    if difference.field in ("stream-next-offset", "etag"):
        return FIRST_INCARNATION not in difference.ours
    text = difference.step.query + (difference.step.header("stream-fork-offset") or "")
    return OFFSET in text and _is_status(difference, [400, 410], [200, 201, 400])


def _keeps_refused_stream(difference: Difference) -> bool:
    refused = [step for step in difference.writes_before() if step.method == "PUT" and step.body in (b"{", b"[1,")]
    return bool(refused) and difference.field == "status" and difference.our_status in (201, 400, 404)


def _forks_from_beginning(difference: Difference) -> bool:
    """Recognise -1, which also stands for an offset of a stream that has reported none."""
    offset = difference.step.header("stream-fork-offset") or ""
    return offset.startswith(("-1", OFFSET)) and _is_status(difference, [200, 201, 404, 409], [400])


def _is_same_fork(difference: Difference) -> bool:
    return difference.step.source is not None and _is_status(difference, [200], [409])


def _is_same_media_type(difference: Difference) -> bool:
    return difference.step.source is None and difference.step.method == "PUT" and _is_status(difference, [200], [409])


def _has_two_faults(difference: Difference) -> bool:
    """Recognise two refusals that the step both deserves, given the state that the stream has on Mainstem."""
    if not _is_status(difference, [400, 409], [404, 409, 410]) or not difference.found:
        return False
    deserved = list_conflicts(difference.step, difference.found)
    if is_malformed(difference.step):
        deserved.add(400)
    return {difference.our_status, difference.their_status} <= deserved


EXPLANATIONS: Final = {
    "cache-control": Explanation(
        (NODE, RUST),
        "Mainstem follows section 10: pages can be cached, the tail and errors cannot. The others send the header on "
        "fewer replies, which is allowed.",
        lambda difference: difference.field == "cache-control" and not difference.theirs,
        [HEAD],
    ),
    "etag of HEAD": Explanation(
        (NODE,),
        "Both are right: section 5.5 lists no ETag for HEAD, and does not forbid one.",
        lambda difference: difference.field == "etag" and difference.step.method == "HEAD" and not difference.ours,
        [put(), HEAD],
    ),
    "etag of the beginning": Explanation(
        (NODE,),
        "Both are right: ETags are opaque. Those of Node tell offset=-1 from the offset that it stands for; those of "
        "Mainstem do not, since the pages are the same.",
        lambda difference: difference.field == "etag" and bool(difference.ours and difference.theirs),
        [put(), get(), get(f"?offset={OFFSET}0")],
    ),
    "headers of 304": Explanation(
        (NODE,),
        "Mainstem repeats in a 304 what the 200 would say (RFC 9110, section 15.4.5), so that a cache learns of it.",
        lambda difference: difference.our_status == 304 and not difference.theirs,
        [put(), get(), get(if_none_match=ETAG)],
    ),
    "lists of ETags": Explanation(
        (NODE, RUST),
        "Mainstem is right: RFC 9110, section 13.1.2, allows `*` and lists of tags in If-None-Match.",
        _matches_any,
        [put(), get(), get(if_none_match=f'"x", {ETAG}')],
    ),
    "JSON as it was sent": Explanation(
        (NODE,),
        "Both are right: the values are the same. Mainstem keeps the bytes of each message; Node writes them again.",
        _is_same_json,
        [put(JSON, b'{"a": 1}'), get()],
    ),
    "JSON in capitals": Explanation(
        (NODE,),
        "Mainstem is right: media types have no case (RFC 9110, section 8.3.1). At offset=now and in events, Node "
        "treats Application/JSON as bytes.",
        lambda difference: difference.field == "body" and any(map(_has_capitals, difference.earlier)),
        [put("Application/JSON"), get("?offset=now")],
    ),
    "events of a page": Explanation(
        (NODE,),
        "Both are right: section 5.8 allows a server to join appends in one data event, and to omit upToDate beside "
        "streamClosed.",
        _has_same_events,
        [put(stream_closed="true"), get("?offset=-1&live=sse")],
    ),
    "cursor of a catch-up": Explanation(
        (NODE, RUST),
        "Both are right: section 5.6 makes Stream-Cursor optional for catch-up reads.",
        lambda difference: difference.field == "stream-cursor" and "live" not in difference.step.query,
        [put(), get("?offset=now")],
    ),
    "cursor at the end": Explanation(
        (RUST,),
        "Both are right: section 5.7 allows a server to omit Stream-Cursor once the stream is closed.",
        lambda difference: difference.field == "stream-cursor" and "live" in difference.step.query,
        [put(stream_closed="true"), get("?offset=now&live=long-poll")],
    ),
    "invalid media types": Explanation(
        (NODE, RUST),
        "Both are right: section 5.1 leaves open what a content type is. Mainstem refuses one that is no media type.",
        _has_bad_media_type,
        [put("nonsense")],
    ),
    "empty media type": Explanation(
        (RUST,),
        "Mainstem treats an empty Content-Type as an absent one. The server in Rust stores it, and sends no type.",
        lambda difference: any(step.header("content-type") == "" for step in (*difference.earlier, difference.step)),
        [put("")],
    ),
    "odd lifetimes": Explanation(
        (NODE, RUST),
        "Mainstem is right: section 5.1 asks for a decimal number and an RFC 3339 time. It also limits a TTL.",
        _has_odd_lifetime,
        [put(stream_ttl="9007199254740992")],
    ),
    "closing in capitals": Explanation(
        (NODE,),
        "Mainstem is right: section 4.1 asks for the value `true` in any case, and Node recognises only small letters.",
        lambda difference: (
            _closes_in_capitals(difference.step) or any(map(_closes_in_capitals, difference.writes_before()))
        ),
        [put(stream_closed="TRUE")],
    ),
    "parameters of media types": Explanation(
        (NODE,),
        "Both are right: section 5.1 leaves it open. Mainstem compares media types without their "
        "parameters, as both do for appends.",
        _is_same_media_type,
        [put("text/plain; charset=utf-8"), put("text/plain")],
    ),
    "two faults": Explanation(
        (NODE, RUST),
        "Both are right: the protocol orders only conflicts. Mainstem checks a request before it looks for the stream, "
        "and the path of a new fork before its source.",
        _has_two_faults,
        [request("POST", "none", body=b"{", content_type=JSON)],
    ),
    "long-poll of an empty stream": Explanation(
        (NODE,),
        "Mainstem is right: section 5.7 lets a server wait if there is no data at the offset, and -1 is no exception.",
        lambda difference: "live=long-poll" in difference.step.query and _is_status(difference, [NO_REPLY], [200]),
        [put(), get("?offset=-1&live=long-poll")],
    ),
    "offsets of another incarnation": Explanation(
        (NODE, RUST),
        "Mainstem is stricter than section 8: a path that is created again gets new offsets, and old ones are refused "
        "instead of reading data that they do not belong to.",
        _names_another_incarnation,
        [put(body=b"a"), DELETE, put(), get(f"?offset={OFFSET}1")],
    ),
    "offset of a duplicate": Explanation(
        (NODE,),
        "Mainstem is right: section 5.2 lists Stream-Next-Offset for every success, and a duplicate is one.",
        lambda difference: (
            difference.field == "stream-next-offset"
            and (difference.step.method, difference.our_status, difference.theirs) == ("POST", 204, "")
        ),
        [put(), produce(), produce()],
    ),
    "closed streams first": Explanation(
        (RUST,),
        "Mainstem is right: section 5.2 asks servers to report that the stream is closed before another conflict.",
        lambda difference: (
            difference.field in ("stream-closed", "stream-next-offset")
            and (difference.step.method, difference.our_status, difference.theirs) == ("POST", 409, "")
        ),
        [put(stream_closed="true"), post(b"1", JSON, stream_closed="true")],
    ),
    "retries after the close": Explanation(
        (RUST,),
        "Mainstem is right: section 5.2.1 recognises the closing append by its producer, epoch and number.",
        lambda difference: difference.step.header("producer-id") is not None and _is_status(difference, [204], [409]),
        [put(), produce(stream_closed="true"), produce()],
    ),
    "closing with a used number": Explanation(
        (NODE,),
        "Mainstem is right: a request with the number of an earlier append is its duplicate, and closes nothing. Node "
        "replies that the stream is closed, which it is not.",
        lambda difference: (
            difference.field == "stream-closed"
            and difference.step.header("producer-id") is not None
            and not difference.ours
        ),
        [put(), produce(), request("POST", "s0", "", b"", stream_closed="true", **PRODUCER)],
    ),
    "numbers with a leading zero": Explanation(
        (NODE, RUST),
        "Both are right: section 5.2.1 asks for integers, and leaves their form open. Mainstem refuses a leading zero.",
        lambda difference: (
            "01" in (difference.step.header("producer-epoch"), difference.step.header("producer-seq"))
            and difference.field == "status"
            and difference.our_status == 400
        ),
        [put(), post(b"a", producer_id="p", producer_epoch="01", producer_seq="0")],
    ),
    "streams that were refused": Explanation(
        (NODE,),
        "Mainstem is right: a creation that is refused for its body leaves nothing behind. Node keeps an empty stream.",
        _keeps_refused_stream,
        [put(JSON, b"{"), HEAD],
    ),
    "bodies of repeated creations": Explanation(
        (NODE,),
        "Both are right: section 5.1 does not say whether the body of a repeated creation is checked. Node ignores it.",
        lambda difference: (
            difference.step.method == "PUT"
            and difference.step.body in BAD_JSON
            and _is_status(difference, [400], [200])
        ),
        [put(JSON), put(JSON, b"{")],
    ),
    "forks from the beginning": Explanation(
        (NODE,),
        "Mainstem accepts -1 as the offset of a fork, since section 8 defines it as the beginning of every stream.",
        _forks_from_beginning,
        [put(body=b"a"), fork("-1")],
    ),
    "the same fork": Explanation(
        (NODE, RUST),
        "Both are right: Mainstem compares the points at which two forks begin; the others compare the headers.",
        _is_same_fork,
        [put(body=b"a"), fork(), fork(f"{OFFSET}0")],
    ),
    "closing a deleted stream": Explanation(
        (NODE,),
        "Mainstem is right: a deleted stream that has forks is gone, and section 4.2 asks for 410. Node closes it.",
        lambda difference: difference.step.header("stream-closed") is not None and _is_status(difference, [410], [204]),
        [put(), fork(), DELETE, post(b"", stream_closed="true")],
    ),
    "unknown kinds of reads": Explanation(
        (NODE,),
        "Mainstem is right: section 5.6 asks for 400 for invalid parameters, and Node ignores an unknown `live`.",
        lambda difference: difference.step.query.endswith("live=x") and _is_status(difference, [400], [200]),
        [put(), get("?offset=-1&live=x")],
    ),
    "malformed offsets": Explanation(
        (NODE,),
        "Mainstem is right: section 5.6 asks for 400 for a malformed offset; no server has sent 0_0.",
        lambda difference: difference.step.query.endswith("offset=0_0") and _is_status(difference, [400], [200]),
        [put(), get("?offset=0_0")],
    ),
    "offsets beyond the end": Explanation(
        (NODE, RUST),
        "Both are right: the protocol leaves open what an offset is that no server has sent. Mainstem refuses it.",
        lambda difference: (
            "9999999999999999_9999999999999999" in difference.step.query and _is_status(difference, [400], [200])
        ),
        [put(), get("?offset=9999999999999999_9999999999999999")],
    ),
    "offset of a refusal": Explanation(
        (RUST,),
        "Both are right: section 5.2 requires Stream-Next-Offset only for a conflict with a closed stream.",
        lambda difference: (
            difference.field == "stream-next-offset"
            and (difference.step.method, difference.ours) == ("POST", "")
            and difference.our_status in (403, 409)
        ),
        [put(), post(b"a", stream_seq="b"), post(b"a", stream_seq="a")],
    ),
    "sub-offset of an empty source": Explanation(
        (RUST,),
        "Mainstem is right: section 4.2 allows a sub-offset of 0, which refines nothing, at the end of the data too.",
        lambda difference: (
            difference.step.header("stream-fork-sub-offset") == "0" and _is_status(difference, [200, 201, 409], [400])
        ),
        [put(), fork("-1", "0")],
    ),
}


def explain(difference: Difference) -> str | None:
    """Return the name of the explanation of a difference; None if there is none."""
    for name, explanation in EXPLANATIONS.items():
        if difference.peer in explanation.peers and explanation.applies(difference):
            return name
    return None
