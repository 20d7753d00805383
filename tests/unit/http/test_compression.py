import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem import limits
from mainstem.http.compression import ENCODERS, choose_encoding
from tests.support.encodings import DECODERS

BIG = limits.COMPRESS_BYTES_MIN


@pytest.mark.parametrize(
    ("accept", "encoding"),
    [
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("deflate", "deflate"),
        ("br", "br"),
        ("zstd", "zstd"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip, deflate, br", "br"),
        ("gzip,deflate", "gzip"),
        ("gzip;q=0.1", "gzip"),
        ("zstd;q=0, br;q=0.0, gzip;q=0.001", "gzip"),
        ("gzip ; q = 1", "gzip"),
        ("gzip;Q=0, deflate", "deflate"),
        ("*", "zstd"),
        ("*;q=0.5, zstd;q=0", "br"),
        ("identity, gzip", "gzip"),
        ("nonsense, gzip", "gzip"),
        (",,gzip,,", "gzip"),
    ],
)
def test_the_best_encoding_that_the_client_accepts_is_chosen(accept, encoding):
    assert choose_encoding(accept, BIG) == encoding


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "identity",
        "gzip;q=0",
        "gzip;q=0.000",
        "*;q=0",
        "nonsense",
        "gzipp",
        "x-gzip",
        ",",
        ";",
        "gzip;q=",
        "gzip;q=x",
        "gzip;q=nan",
        "gzip;q=-1",
    ],
)
def test_without_a_common_encoding_the_body_is_not_compressed(accept):
    assert choose_encoding(accept, BIG) is None


def test_a_small_body_is_not_compressed():
    assert choose_encoding("gzip", BIG - 1) is None
    assert choose_encoding("gzip", BIG) == "gzip"


def test_every_encoder_has_a_decoder_here():
    assert set(ENCODERS) == set(DECODERS)


@pytest.mark.parametrize("name", sorted(ENCODERS))
@given(data=st.binary(max_size=4096))
def test_every_encoding_round_trips(name, data):
    assert DECODERS[name](ENCODERS[name](data)) == data


@given(st.text(max_size=200))
def test_any_accept_encoding_header_is_parsed_without_an_error(accept):
    assert choose_encoding(accept, BIG) in {None, *ENCODERS}
