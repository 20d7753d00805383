"""The call of a webhook is part of the trace of the append that it announces, and its receiver can continue it."""

from tests.support.collectors import ERROR
from tests.support.subscribers import Subscriber
from tests.support.webhook_receivers import DONE, FAILED

CLIENT = 3
TEXT = {"content-type": "text/plain"}
ROOT = "/v1/stream/"


def subscribe(client, path, url):
    return Subscriber(client, path.replace("/", "-") + "-traced").listen(url, pattern=path)


def test_a_webhook_continues_the_trace_of_the_append(traced, collector, caller, receive, path):
    receiver = receive(lambda call: DONE)
    subscriber = subscribe(traced, path, receiver.url)
    traced.put(ROOT + path, headers={**TEXT, **caller.headers, "tracestate": "vendor=a"}, content=b"x")
    call = receiver.next()
    version, trace_id, span_id, flags = call.headers["traceparent"].split("-")
    assert (version, trace_id, flags) == ("00", caller.trace_id, "01")
    assert call.headers["tracestate"] == "vendor=a"
    span = collector.wait_for("webhook", mainstem__subscription_id=subscriber.name)
    assert (span.trace_id, span.span_id, span.kind) == (trace_id, span_id, CLIENT)
    put = collector.wait_for("PUT /v1/stream/{path}", url__path=ROOT + path)
    assert span.parent_id == put.span_id
    port = int(receiver.url.rpartition(":")[2].partition("/")[0])
    assert span.attributes == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "server.address": "127.0.0.1",
        "server.port": port,
        "mainstem.subscription_id": subscriber.name,
        "mainstem.wake_id": call.wake["wake_id"],
    }


def test_a_retry_is_another_span_of_the_same_trace(traced, collector, caller, receive, path):
    replies = iter([FAILED, DONE])
    receiver = receive(lambda call: next(replies))
    subscriber = subscribe(traced, path, receiver.url)
    traced.put(ROOT + path, headers={**TEXT, **caller.headers}, content=b"x")
    calls = [receiver.next(), receiver.next()]
    assert {call.headers["traceparent"].split("-")[1] for call in calls} == {caller.trace_id}
    failed = collector.wait_for("webhook", mainstem__subscription_id=subscriber.name)
    again = collector.wait_for("webhook", mainstem__subscription_id=subscriber.name, http__response__status_code=200)
    assert (failed.status, failed.attributes["error.type"]) == (ERROR, "500")
    assert "http.request.resend_count" not in failed.attributes
    assert again.attributes["http.request.resend_count"] == 1
    assert again.status != ERROR


def test_a_receiver_that_is_gone_is_an_error(traced, collector, receive, path):
    receiver = receive()
    receiver.close()
    subscriber = subscribe(traced, path, receiver.url)
    traced.put(ROOT + path, headers=TEXT, content=b"x")
    span = collector.wait_for("webhook", mainstem__subscription_id=subscriber.name)
    assert (span.status, span.attributes["error.type"]) == (ERROR, "unreachable")
    assert "http.response.status_code" not in span.attributes


def test_a_wake_for_several_appends_refers_to_all_their_traces(traced, collector, receive, path):
    receiver = receive(lambda call: DONE)
    receiver.hold(DONE)
    subscriber = subscribe(traced, path, receiver.url)
    traced.put(ROOT + path, headers=TEXT, content=b"x")
    receiver.next()  # the first wake waits for its reply, so further appends wait for the second
    traces = [f"{'ef' * 15}{number:02x}" for number in range(3)]
    for trace_id in traces:
        headers = {**TEXT, "traceparent": f"00-{trace_id}-{'cd' * 8}-01"}
        assert traced.post(ROOT + path, headers=headers, content=b"x").status_code == 204
    receiver.released.set()
    call = receiver.next()
    assert call.headers["traceparent"].split("-")[1] == traces[0]
    span = collector.wait_for(
        "webhook", mainstem__subscription_id=subscriber.name, mainstem__wake_id=call.wake["wake_id"]
    )
    assert (span.trace_id, span.links) == (traces[0], traces[1:])
