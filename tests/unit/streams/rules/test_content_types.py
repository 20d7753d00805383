import pytest

from mainstem import limits
from mainstem.errors import BadHeader
from mainstem.streams.rules.content_types import check_content_type, is_json, is_text, media_type


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        " application/json ; a=b; c=d",
    ],
)
def test_a_media_type_is_compared_without_case_and_parameters(content_type):
    assert media_type(content_type) == "application/json"
    assert is_json(content_type)


@pytest.mark.parametrize(
    "content_type", ["application/ndjson", "application/jsonx", "text/json", "application/problem+json", "json", ""]
)
def test_only_application_json_is_json_mode(content_type):
    assert not is_json(content_type)


@pytest.mark.parametrize("content_type", ["text/plain", "TEXT/HTML; charset=latin-1", "text/x", "application/json"])
def test_text_and_json_are_sent_over_sse_unchanged(content_type):
    assert is_text(content_type)


@pytest.mark.parametrize(
    "content_type", ["application/octet-stream", "image/png", "application/ndjson", "texture/plain", "application/text"]
)
def test_everything_else_is_sent_over_sse_in_base64(content_type):
    assert not is_text(content_type)


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/vnd.api+json;version=1", "x/y", "a" * 100 + "/" + "b" * 100, 'a/b; c="d e"'],
)
def test_a_media_type_is_accepted(content_type):
    check_content_type(content_type)


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text",
        "/",
        "text/",
        "/plain",
        ";",
        "text;/plain",
        " ",
        "text/plain\r\nX: y",
        "text/plain\x00",
        "té/xt",
        "text\n/a",
        "a/" + "b" * limits.CONTENT_TYPE_BYTES_MAX,
    ],
)
def test_an_invalid_media_type_is_refused(content_type):
    with pytest.raises(BadHeader):
        check_content_type(content_type)
