"""Options: errors about a typo, a missing or an invalid value name the correct ones."""

import pytest

from mainstem.errors import BadOption
from mainstem.pipeline.datasource.options import parse_read_options, parse_write_options

URL = {"url": "http://localhost:4437/"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "url is missing"),
        (URL | {"stream": "a"}, "unknown option 'stream'; the options are .*streams"),
        (URL | {"kind": "both"}, "kind must be"),
        (URL | {"startingId": "-1"}, "startingId must be a whole number from 0"),
        (URL | {"endingId": "latest"}, "endingId must be"),
        (URL | {"maxRowsPerTrigger": "0"}, "from 1"),
        (URL | {"failOnDataLoss": "perhaps"}, "true or false"),
        (URL | {"streams": "a**b"}, "segment of its own"),
        (URL | {"streams": "a", "path": "b"}, "give only one of them"),
        (URL | {"token": "a", "tokenFile": "b"}, "not both"),
        (URL | {"retrySeconds": "9999999"}, "retrySeconds"),
        (URL | {"startingId": "5", "startingTimestamp": "2026-01-01"}, "startingId or startingTimestamp, not both"),
        (URL | {"endingId": "5", "endingTimestamp": "2026-01-01"}, "endingId or endingTimestamp, not both"),
        (URL | {"startingTimestamp": "yesterday"}, "startingTimestamp must be a time like"),
        (URL | {"endingTimestamp": "9" * 30}, "endingTimestamp must be a time like"),
        (URL | {"minRowsPerTrigger": "9", "maxRowsPerTrigger": "5"}, "minRowsPerTrigger is 9, more than"),
        (URL | {"maxTriggerDelay": "5m"}, "set minRowsPerTrigger, too"),
        (URL | {"minRowsPerTrigger": "9", "maxTriggerDelay": "soon"}, "maxTriggerDelay must be a number with a unit"),
        (URL | {"minPartitions": "10001"}, "minPartitions must be"),
        (URL | {"mode": "LENIENT"}, "mode must be one of PERMISSIVE"),
        (URL | {"splits": "3"}, "unknown option 'splits'.*minPartitions"),
        (URL | {"inferRows": "100001"}, "inferRows must be"),
        (URL | {"startingOffsetsByStream": "[]"}, "must be a JSON object of paths"),
        (URL | {"startingOffsetsByStream": '{"a": "x"}'}, "'a': 'x' is not an offset"),
        (URL | {"startingOffsetsByStream": '{"a": -5}'}, "-5 is not a committed id"),
        (URL | {"startingOffsetsByStream": '{"../a": "now"}'}, "segment"),
        (URL | {"startingOffsetsByStream": '{"a": "now"}', "kind": "event"}, "the other options exclude"),
    ],
)
def test_an_invalid_option_for_reading_is_reported(given, said):
    with pytest.raises(BadOption, match=said):
        parse_read_options(given)


def test_names_are_case_insensitive_and_lists_have_commas():
    found = parse_read_options(URL | {"STREAMS": "a/*, b", "startingid": "latest"})
    assert (found.streams, found.starting_latest, found.starting_id) == (("a/*", "b"), True, None)
    assert found.server.url == "http://localhost:4437"


@pytest.mark.parametrize(
    ("given", "streaming", "said"),
    [
        (URL, False, "give exactly one of"),
        (URL | {"stream": "a", "partitions": "b"}, False, "one of"),
        (URL | {"stream": "../a"}, False, "segment"),
        (URL | {"stream": "a"}, True, "checkpointLocation"),
        (URL | {"stream": "a", "producerId": "p", "checkpointLocation": "/c"}, True, "batch writes"),
        (URL | {"stream": "a", "chunkBytes": "99999999999"}, False, "chunkBytes"),
        (URL | {"stream": "a", "startingId": "1"}, False, "unknown option"),
    ],
)
def test_an_invalid_option_for_writing_is_reported(given, streaming, said):
    with pytest.raises(BadOption, match=said):
        parse_write_options(given, streaming=streaming)


def test_a_token_is_not_shown():
    assert "secret" not in repr(parse_read_options(URL | {"token": "secret"}))


def test_streams_may_be_served_under_another_prefix():
    assert parse_read_options(URL).server.stream_url("a b/c") == "/v1/stream/a%20b/c"
    assert parse_read_options(URL | {"streamPrefix": "/v1/streams"}).server.stream_url("a") == "/v1/streams/a"
    with pytest.raises(BadOption, match="streamPrefix"):
        parse_read_options(URL | {"streamPrefix": "v1"})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2026-01-02", "2026-01-02T00:00:00.000000Z"),
        ("2026-01-02T03:04:05.5+02:00", "2026-01-02T01:04:05.500000Z"),
        ("1700000000123", "2023-11-14T22:13:20.123000Z"),
    ],
)
def test_a_time_is_iso_8601_or_milliseconds(text, found):
    assert parse_read_options(URL | {"startingTimestamp": text}).starting_time == found
