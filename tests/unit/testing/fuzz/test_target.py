import pytest

from mainstem.errors import BadRequest
from mainstem.testing.fuzz.target import Finding, Target


def run(data: bytes) -> None:
    if data == b"refused":
        raise BadRequest("as documented")
    assert data != b"wrong"


TARGET = Target("picky", run, ())


def test_accepted_and_refused_inputs_pass():
    TARGET.check(b"accepted")
    TARGET.check(b"refused")


def test_anything_else_is_a_finding_with_its_input_and_cause():
    with pytest.raises(Finding, match=r"picky fails for the input b'wrong'") as found:
        TARGET.check(b"wrong")
    assert found.value.data == b"wrong"
    assert isinstance(found.value.__cause__, AssertionError)
