"""Retention policies: the file, which policy applies, and what it keeps."""

import pytest

from mainstem.errors import BadPolicy
from mainstem.pipeline.jobs.retain.policies import load_policies, parse_policies


def parse(text):
    return parse_policies(text).all[0]


def test_a_policy_has_bounds_and_requirements():
    policy = parse("""
        [[policy]]
        name = "rooms"
        partitions = ["room-*", "lobby"]
        max_age = "30d"
        max_events = 100_000
        max_bytes = "1GiB"
        require_snapshot = true
        require_archive = "lake/log"
    """)
    assert (policy.name, policy.kind, policy.globs) == ("rooms", "partition", ("room-*", "lobby"))
    assert (policy.max_age_s, policy.max_events, policy.max_bytes) == (30 * 86_400, 100_000, 2**30)
    assert (policy.require_snapshot, policy.require_archive) == (True, "lake/log")


@pytest.mark.parametrize(
    ("text", "seconds"), [("1s", 1), ("90m", 5400), ("2h", 7200), ("1 d", 86_400), ("3w", 3 * 7 * 86_400)]
)
def test_ages_have_units(text, seconds):
    assert parse(f'[[policy]]\nstreams = "**"\nmax_age = "{text}"').max_age_s == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("7", 7), ('"7"', 7), ('"1kB"', 1000), ('"1 KiB"', 1024), ('"2MB"', 2 * 10**6)]
)
def test_sizes_may_have_units(text, size):
    assert parse(f'[[policy]]\nstreams = "**"\nmax_bytes = {text}').max_bytes == size


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "0 policies"),
        ("policy = 1", "two brackets"),
        ("[policy]\nmax_age='1d'", "two brackets"),
        ("[[policies]]\nmax_age='1d'", "unknown key 'policies'"),
        ("[[policy]]\nmax_age='1d'", "give either partitions or streams"),
        ("[[policy]]\nmax_age='1d'\npartitions='a'\nstreams='b'", "give either partitions or streams"),
        ("[[policy]]\npartitions='a'", "it has no effect"),
        ("[[policy]]\npartitions='a'\nkeep=false", "it has no effect"),
        ("[[policy]]\npartitions='a'\nkeep=true\nmax_age='1d'", "keep = true"),
        ("[[policy]]\npartitions='a'\nmax_age='1 month'", "max_age must be like"),
        ("[[policy]]\npartitions='a'\nmax_age='0d'", "max_age must be like"),
        ("[[policy]]\npartitions='a'\nmax_age=30", "max_age must be a string"),
        ("[[policy]]\npartitions='a'\nmax_events=0", "max_events must be from 1"),
        ("[[policy]]\npartitions='a'\nmax_events=true", "max_events must be a whole number"),
        ("[[policy]]\npartitions='a'\nmax_bytes='lots'", "max_bytes must be"),
        ("[[policy]]\npartitions='a'\nmax_bytes=true", "max_bytes must be"),
        ("[[policy]]\npartitions='a'\nmax_evens=1", "unknown key 'max_evens'; the keys are .*max_events"),
        ("[[policy]]\npartitions=[]\nmax_events=1", "a glob in quotes"),
        ("[[policy]]\npartitions='a**'\nmax_events=1", "whole segments"),
        ("[[policy]]\npartitions='a'\nrequire_snapshot='yes'", "require_snapshot must be true or false"),
        ("= 1", "is not valid TOML"),
    ],
)
def test_an_invalid_policy_is_refused(text, fault):
    with pytest.raises(BadPolicy, match=fault):
        parse_policies(text)


def test_the_error_names_the_file_and_the_policy(tmp_path):
    path = tmp_path / "retention.toml"
    with pytest.raises(BadPolicy, match=r"cannot read .*retention.toml: No such file"):
        load_policies(path)
    path.write_text("[[policy]]\nstreams='a'\nmax_events=1\n[[policy]]\nstreams='b'\nmax_events=0\n")
    with pytest.raises(BadPolicy, match=r"retention.toml, policy 2: max_events"):
        load_policies(path)


def test_the_first_policy_that_matches_applies():
    policies = parse_policies("""
        [[policy]]
        partitions = "room-vip-*"
        keep = true
        [[policy]]
        partitions = "room-*"
        max_events = 10
        [[policy]]
        streams = "**"
        max_events = 10
        [[policy]]
        partitions = "**"
        max_events = 1
    """)
    assert policies.find("partition", "room-vip-1") is None
    assert policies.find("partition", "room-1") == 1
    assert policies.find("stream", "room-1") == 2
    assert policies.find("partition", "else/where") == 3


def test_data_that_no_policy_matches_is_kept():
    policies = parse_policies("[[policy]]\npartitions='a'\nmax_events=1")
    assert policies.find("partition", "b") is None
    assert policies.find("stream", "a") is None


def test_prefixes_cover_every_name_that_may_be_pruned():
    policies = parse_policies("""
        [[policy]]
        streams = "kept/**"
        keep = true
        [[policy]]
        streams = ["logs/**", "logs/eu/*", "a-*"]
        max_events = 1
    """)
    assert policies.list_prefixes("stream") == ["a-", "logs"]
    assert policies.list_prefixes("partition") == []
