import pytest

from mainstem.http.cookies import find_cookies, format_cookie


@pytest.mark.parametrize(
    ("lines", "values"),
    [
        ([], []),
        ([b"a=1"], [b"1"]),
        ([b"b=2; a=1;c=3"], [b"1"]),
        ([b"a=1", b"a=2; a=3"], [b"1", b"2", b"3"]),
        ([b"a=", b"a=b=c"], [b"", b"b=c"]),
        ([b"a", b"A=1", b"aa=1", b";;=;", b"\xff"], []),
    ],
)
def test_all_cookies_of_a_name_are_found_and_nothing_else(lines, values):
    fields = [(b"host", b"a=9"), *((b"cookie", line) for line in lines)]
    assert find_cookies(fields, b"a") == values


def test_a_cookie_is_kept_from_scripts_and_other_sites():
    assert format_cookie("a", "b", path="/", secure=False) == b"a=b; Path=/; HttpOnly; SameSite=Strict"
    secure = format_cookie("a", "b", path="/x", secure=True, max_age_s=0)
    assert secure == b"a=b; Path=/x; HttpOnly; SameSite=Strict; Secure; Max-Age=0"
