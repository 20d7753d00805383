"""Turning replies into errors: by code if there is one, otherwise by status and headers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem import errors as server_errors
from mainstem.client.core import errors
from mainstem.client.core.errors import error_of
from mainstem.errors import MainstemError, problem

PROBLEM = {"content-type": "application/problem+json"}


def every(kind):
    return [kind, *(found for below in kind.__subclasses__() for found in every(below))]


def test_every_error_of_the_client_has_a_code_and_a_hint():
    for kind in every(errors.ClientError):
        if kind.__module__ != errors.__name__:
            continue  # the offline client tests its own
        assert kind.code
        assert (
            kind.hint
            or kind in (errors.ClientError, errors.BadArgument, errors.ProducerClosed)
            or issubclass(kind, errors.ResponseError)
        )


@pytest.mark.parametrize("kind", every(MainstemError)[1:], ids=lambda kind: kind.__name__)
def test_every_error_of_the_server_keeps_its_code_hint_and_facts(kind):
    made = kind.__new__(kind)
    MainstemError.__init__(made, "what happened", extra=7)
    found = error_of("GET s", made.status, PROBLEM, json.dumps(problem(made)).encode())
    assert (found.code, found.status, found.facts["extra"]) == (made.code, made.status, 7)
    assert "what happened" in str(found)
    assert "GET s" in str(found)
    assert not made.hint or made.hint in str(found)
    assert found.retryable or not made.retryable


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (400, {}, errors.BadRequest),
        (401, {}, errors.Unauthorized),
        (403, {}, errors.Forbidden),
        (403, {"producer-epoch": "3"}, errors.StaleEpoch),
        (404, {}, errors.NotFound),
        (409, {}, errors.Conflict),
        (409, {"stream-closed": "TRUE"}, errors.StreamClosed),
        (409, {"producer-expected-seq": "3"}, errors.ProducerGap),
        (410, {}, errors.StreamGone),
        (410, {"stream-earliest-offset": "7"}, errors.OffsetGone),
        (412, {}, errors.TailMoved),
        (413, {}, errors.BodyTooLarge),
        (418, {}, errors.BadRequest),
        (429, {}, errors.RateLimited),
        (500, {}, errors.ServerFailed),
        (503, {}, errors.Unavailable),
        (302, {}, errors.ResponseError),
    ],
)
def test_a_reply_without_a_code_is_classified_by_its_status(status, headers, kind):
    assert type(error_of("GET s", status, headers, b"plain words")) is kind


@given(st.integers(300, 599), st.binary(max_size=60), st.dictionaries(st.sampled_from(["producer-epoch"]), st.text()))
def test_any_reply_becomes_an_error(status, body, headers):
    error = error_of("GET s", status, {**PROBLEM, **headers}, body)
    assert error.status == status
    assert str(error)
    if isinstance(error, errors.StaleEpoch):
        assert error.current_epoch is None or error.current_epoch == int(headers["producer-epoch"])


@pytest.mark.parametrize("body", [b"[]", b"null", b"{", b'{"code": 5, "hint": 7}', b'{"detail": ["x"]}'])
def test_a_malformed_problem_still_has_its_status(body):
    assert error_of("GET s", 404, PROBLEM, body).status == 404


def test_limits_are_in_the_error():
    error = server_errors.BodyTooLarge("too large", limit_bytes=10)
    found = error_of("POST s", 413, PROBLEM, json.dumps(problem(error)).encode())
    assert isinstance(found, errors.BodyTooLarge)
    assert found.limit_bytes == 10


# Other servers send no code

PLAIN = {"content-type": "text/plain; charset=utf-8"}


@pytest.mark.parametrize(
    ("headers", "body", "kind"),
    [
        (PLAIN, b"Sequence conflict", errors.SequenceRegression),
        (PLAIN, b"", errors.SequenceRegression),
        (PLAIN, b"Content-type mismatch", errors.ContentTypeMismatch),
        ({**PLAIN, "stream-closed": "true"}, b"Stream is closed", errors.StreamClosed),
        ({**PLAIN, "producer-expected-seq": "3"}, b"Producer sequence gap", errors.ProducerGap),
        (PROBLEM, b'{"code": "stream_closed"}', errors.StreamClosed),
        (PROBLEM, b'{"code": "something_else"}', errors.Conflict),
    ],
)
def test_a_conflict_after_a_seq_is_a_sequence_conflict_unless_the_reply_says_otherwise(headers, body, kind):
    assert type(error_of("POST s", 409, headers, body, seq_sent=True)) is kind


def test_a_conflict_without_a_seq_is_not_a_sequence_conflict():
    assert type(error_of("POST s", 409, PLAIN, b"Conflict")) is errors.Conflict


def test_the_text_of_a_plain_reply_is_in_the_error_on_one_line():
    assert "POST s: no such\ufffd thing" in str(error_of("POST s", 404, PLAIN, b"no such\xff\r\n\x1b\t thing\n"))
    long = str(error_of("POST s", 500, PLAIN, b"x" * 100_000))
    assert "xxx" in long
    assert len(long) < 1_000


def test_the_html_page_of_a_proxy_is_not_shown():
    assert "<h1>" not in str(error_of("POST s", 502, {"content-type": "text/html"}, b"<h1>Bad gateway</h1>"))


def test_the_title_of_a_sequence_conflict_is_the_text_that_other_clients_search_for():
    assert server_errors.SequenceRegression.title.lower().startswith("sequence conflict")
