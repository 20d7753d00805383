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
