"""Contexts, events, the log, subscriptions and the benchmark."""

import json
import re
import stat

import pytest

from mainstem import limits


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


# Contexts


def test_a_context_names_a_server_and_sends_its_token_only_there(shell, server):
    assert (
        shell.ok("context", "add", "here", "--url", server.url) == f"saved here ({server.url}) as the current context\n"
    )
    file = shell.directory / "config" / "mainstem" / "contexts.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    shell.ok("stream", "ls", "nothing")  # uses the current context
    shell.ok("context", "add", "far", "--url", "http://127.0.0.1:1", "--token", "-", input="secret-token\n")
    usual = {"stream_prefix": "/v1/stream"}
    assert rows(shell.ok("context", "ls", "--json")) == [
        {"name": "far", "url": "http://127.0.0.1:1", "token": "kept", "current": False} | usual,
        {"name": "here", "url": server.url, "token": "none", "current": True} | usual,
    ]
    assert "secret-token" not in shell.ok("context", "ls") + shell.ok("context", "show", "far")
    shell("stream", "ls", "--context", "far").fails(3, "127.0.0.1:1")
    shell.ok("context", "use", "far")
    assert json.loads(shell.ok("context", "show", "--json"))["name"] == "far"
    shell("stream", "ls").fails(3, "127.0.0.1:1")
    shell.ok("stream", "ls", "nothing", "--url", server.url)  # a flag overrides the context
    shell.environment["MAINSTEM_CONTEXT"] = "here"
    shell.ok("stream", "ls", "nothing")  # and so does the environment
    del shell.environment["MAINSTEM_CONTEXT"]
    shell.ok("context", "rm", "far")
    shell("stream", "ls", "--context", "far").fails(2, "no context 'far'", "here")
    assert json.loads(shell.ok("context", "show", "--json"))["url"] == "http://127.0.0.1:4437"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "x", "--url", "ftp://x"], "ftp://x"),
        (["add", "x", "--url", "http://x:1/v1/stream/"], "leave out /v1/stream, as in http://x:1\n"),
        (["add", "x", "--url", "http://x:1/log/v1/sync"], "leave out /v1/sync, as in http://x:1/log\n"),
        (["add", "x", "--url", "http://x", "--stream-prefix", "/v1/"], "'/v1/'"),
        (["use", "x"], "'x'"),
        (["rm", "x"], "'x'"),
        (["show", "x"], "'x'"),
    ],
)
def test_an_invalid_context_is_refused(shell, arguments, said):
    shell("context", *arguments).fails(2, said)


def test_a_broken_file_of_contexts_is_named(shell):
    file = shell.directory / "config" / "mainstem" / "contexts.json"
    file.parent.mkdir(parents=True)
    file.write_text("{")
    shell("stream", "ls").fails(7, str(file))


def test_a_token_can_be_kept_in_its_own_file(shell, start_server, tmp_path):
    shell.ok("token", "--new-secret", "secret")
    server = start_server("--store", "memory", "--jwt-secret-file", str(tmp_path / "secret"))
    token = shell.ok("token", "--secret-file", "secret", "--client-id", "me", "--admin")
    (tmp_path / "token").write_text(token)
    shell.ok("context", "add", "here", "--url", server.url, "--token-file", str(tmp_path / "token"))
    shell.ok("stream", "ls")
    shell("stream", "ls", "--url", server.url).fails(4, "token")  # a URL given as a flag gets no token of a context


def test_a_prefix_of_streams_comes_from_the_environment_or_a_context(shell, start_server):
    server = start_server("--store", "memory", "--stream-prefix", "/v1/streams")
    shell("stream", "create", "a", "--url", server.url).fails(5, "MAINSTEM_STREAM_PREFIX")
    shell.ok("context", "add", "here", "--url", server.url, "--stream-prefix", "/v1/streams")
    shell.ok("stream", "create", "a")
    shell.ok("subscription", "create", "work", "--wake-stream", "wakes", "--pattern", "a")
    shell("stream", "head", "a", "--url", "http://127.0.0.1:1").fails(3, "127.0.0.1:1")
    shell.environment["MAINSTEM_URL"] = server.url  # a URL given as a flag has no prefix of a context
    shell("stream", "head", "a").fails(5)
    shell.environment["MAINSTEM_STREAM_PREFIX"] = "/v1/streams"
    shell.ok("stream", "head", "a")
    shell.ok("subscription", "get", "work")


# Events and the log


def test_events_are_submitted_pulled_and_tailed(mainstem, path):
    tail = mainstem.spawn("sync", "tail", "-p", path, "--since", "0", "-f", r"%k %c %p %v\n")
    lines = '{"n":1}\n\n{"n":2.0}\n'
    done = mainstem.ok("sync", "submit", "-p", path, "--client-id", "ada", input=lines).split()
    assert [tail.stdout.readline().decode() for _ in range(2)] == [
        f'{done[1]} ada {path} {{"n":1}}\n',
        f'{done[3]} ada {path} {{"n":2.0}}\n',
    ]
    assert mainstem.ok("sync", "pull", "-p", path) == f'{done[0]} {{"n":1}}\n{done[2]} {{"n":2.0}}\n'
    assert mainstem.ok("sync", "pull", "-p", path, "--since", done[0]) == f'{done[2]} {{"n":2.0}}\n'
    again = json.loads(mainstem.ok("sync", "submit", "-p", path, "--id", done[1], "-m", '{"n":1.0}', "--json"))
    assert (again["status"], again["committed_id"]) == ("committed", int(done[0]))
    refused = mainstem("sync", "submit", "-p", path, "--id", done[1], "-m", '{"n":5}')
    refused.fails(1, "the server rejected 1 of the events")
    reason = "event: this id is already committed with different content; use a new id"
    assert refused.text == f"rejected {done[1]} validation_failed ({reason})\n"


def test_partitions_are_listed(mainstem, path):
    ids = [mainstem.ok("sync", "submit", "-p", f"{path}/{name}", "-m", "{}").split()[0] for name in "cab"]
    names = [f"{path}/{name}" for name in "abc"]
    assert mainstem.ok("sync", "ls", path).splitlines() == names
    assert mainstem.ok("sync", "ls", f"{path}/b").splitlines() == names[1:2]
    assert mainstem.ok("sync", "ls", path, "-n", "2").splitlines() == names[:2]
    assert set(names) <= set(mainstem.ok("sync", "ls").splitlines())
    assert rows(mainstem.ok("sync", "ls", path, "--json", "-n", "1")) == [
        {"partition": names[0], "last_committed_id": int(ids[1]), "floor": 0, "snapshot_committed_id": None}
    ]
    heading, first, *_ = mainstem.ok("sync", "ls", path, "--long").splitlines()
    assert heading.split() == ["PARTITION", "END", "FLOOR", "SNAPSHOT"]
    assert first.split() == [names[0], ids[1], "-", "-"]
    assert mainstem.ok("sync", "ls", path + "/nothing") == ""
    assert mainstem("sync", "ls", path, "-n", "0").code == 2


def test_more_partitions_than_one_page_are_listed(mainstem, path):
    number = limits.LISTED_STREAMS_MAX + 1
    drafts = [{"id": f"{path}-{n}", "partitions": [f"{path}/{n:04d}"], "event": {}} for n in range(number)]
    mainstem.ok("sync", "submit", "--drafts", input="".join(json.dumps(draft) + "\n" for draft in drafts))
    expected = [f"{path}/{n:04d}" for n in range(number)]
    assert mainstem.ok("sync", "ls", path).splitlines() == expected
    assert mainstem.ok("sync", "ls", path, "-n", str(number)).splitlines() == expected


def test_hostile_names_of_partitions_are_escaped(mainstem, path):
    name = f"{path}/\x1b[31mred\nnext"
    draft = {"id": path, "partitions": [name], "event": {}}
    mainstem.ok("sync", "submit", "--drafts", input=json.dumps(draft) + "\n")
    (line,) = mainstem.ok("sync", "ls", path).splitlines()
    assert "\x1b" not in line
    assert rows(mainstem.ok("sync", "ls", path, "--json"))[0]["partition"] == name


def test_whole_drafts_name_their_partitions(mainstem, path):
    drafts = [{"id": f"{path}-{n}", "partitions": [path, f"{path}-{n}"], "event": {"n": n}} for n in range(250)]
    done = mainstem.ok("sync", "submit", "--drafts", input="".join(json.dumps(draft) + "\n" for draft in drafts))
    assert len(done.splitlines()) == 250
    assert [row["event"]["n"] for row in rows(mainstem.ok("sync", "pull", "-p", path, "--json"))] == list(range(250))
    assert len(mainstem.ok("sync", "pull", "-p", f"{path}-7").splitlines()) == 1


def test_invalid_events_are_named(mainstem, path):
    mainstem("sync", "submit", "-p", path, input="{}\n[1]\n").fails(2, "event 2 is not a JSON object")
    mainstem("sync", "submit", "-p", path, "--id", "x", input="{}\n{}\n").fails(2, "--id is for a single event")
    mainstem("sync", "submit", "-p", "x" * 200, "-m", "{}").fails(1, "the server rejected 1 of the events")
    assert mainstem("sync", "pull").code == 2
    assert mainstem("sync", "submit", "-m", "{}").code == 2


def test_the_log_shows_both_protocols_in_one_order(mainstem, path):
    head = json.loads(mainstem.ok("log", "head", "--json"))["head"]
    mainstem.ok("stream", "append", path, "--create", "json", input="1\n2\n")
    mainstem.ok("sync", "submit", "-p", path, "-m", '{"n":3}')
    after = ["log", "tail", "--after", str(head), "--no-follow"]
    assert mainstem.ok(*after, "-f", r"%k %s %v\n") == f'stream {path} 1\nstream {path} 2\nevent {path} {{"n":3}}\n'
    assert mainstem.ok(*after, "-p", path, "-f", r"%v\n") == '{"n":3}\n'
    assert mainstem.ok(*after, "--prefix", path, "-f", r"%v\n") == "1\n2\n"
    assert [row["data"] for row in rows(mainstem.ok(*after, "--json"))] == ["1", "2", '{"n":3}']
    assert mainstem.ok("log", "tail", "-n", "1", "--no-follow", "-f", r"%v\n") == '{"n":3}\n'
    assert re.search(r"^head +[0-9]+$", mainstem.ok("log", "head"), re.MULTILINE)


def test_a_tail_of_the_log_counts_messages_not_ids(mainstem, path):
    """An append of many messages has one id, and other streams are committed in between."""
    numbers = [str(n) for n in range(650)]
    mainstem.ok("stream", "append", path, "--create", "json", input="\n".join(numbers))
    mainstem.ok("stream", "append", f"{path}/other", "--create", "json", input="\n".join(["0"] * 30))
    mainstem.ok("sync", "submit", "-p", path, "-m", '{"n":1}')
    tail = ["log", "tail", "--no-follow", "-f", r"%s %v\n"]
    assert len(mainstem.ok(*tail).splitlines()) == 10
    assert mainstem.ok(*tail, "-n", "2").splitlines() == [f"{path}/other 0", f'{path} {{"n":1}}']
    last = [f"{path} {n}" for n in numbers]
    assert mainstem.ok(*tail, "-n", "10", "--stream", path).splitlines() == last[-10:]
    assert mainstem.ok(*tail, "-n", "650", "--stream", path).splitlines() == last
    assert mainstem.ok(*tail, "-n", "9999", "--stream", path).splitlines() == last
    assert len(mainstem.ok(*tail, "-n", "655", "--prefix", path).splitlines()) == 655
    assert mainstem.ok(*tail, "-n", "0") == ""
    assert mainstem.ok(*tail, "--stream", f"{path}/nothing") == ""


def test_a_tail_of_the_log_follows_after_the_last_messages(mainstem, path):
    mainstem.ok("stream", "append", path, "--create", "json", input="1\n2\n3\n")
    tail = mainstem.spawn("log", "tail", "-n", "2", "--stream", path, "-f", r"%v\n")
    assert [tail.stdout.readline() for _ in range(2)] == [b"2\n", b"3\n"]
    mainstem.ok("stream", "append", path, input="4\n")
    assert tail.stdout.readline() == b"4\n"


# Subscriptions


def test_a_worker_claims_and_acknowledges(mainstem, path):
    name = path.replace("/", "-")
    mainstem.ok("stream", "create", f"{path}/wakes", "--type", "json")
    made = ["subscription", "create", name, "--pattern", f"{path}/in/*", "--wake-stream", f"{path}/wakes"]
    assert mainstem.ok(*made) == f"created {name}\n"
    assert mainstem.ok(*made) == f"{name} already exists\n"
    mainstem("subscription", "claim", name).fails(6, f"subscription claim {name}: ")
    mainstem.ok("stream", "append", f"{path}/in/1", "--create", "text", "-m", "work")
    mainstem.spawn("stream", "tail", f"{path}/wakes").stdout.readline()  # the wake
    claim = json.loads(mainstem.ok("subscription", "claim", name, "--json"))
    (stream,) = claim["streams"]
    assert stream["path"] == f"{path}/in/1"
    held = ["--wake", claim["wake_id"], "--generation", str(claim["generation"]), "--claim-token", claim["token"]]
    offset = ["--offset", stream["path"], stream["tail_offset"]]
    mainstem("subscription", "ack", name, *held[:-1], "bad").fails(4, "the token of the claim", "--claim-token")
    assert (
        mainstem.ok("subscription", "ack", name, *held, *offset, "--done") == "acknowledged; no more work is waiting\n"
    )
    mainstem("subscription", "release", name, *held).fails(6, name)  # the wake is over
    (listed,) = rows(mainstem.ok("subscription", "ls", name, "--json"))
    assert (listed["subscription_id"], listed["status"]) == (name, "active")
    table = [line.split() for line in mainstem.ok("subscription", "ls", name).splitlines()]
    assert table == [["NAME", "STREAMS", "WAKES", "STATUS"], [name, f"{path}/in/*", f"{path}/wakes", "active"]]
    found = json.loads(mainstem.ok("subscription", "get", name, "--json"))
    assert found["streams"][0]["acked_offset"] == stream["tail_offset"]
    mainstem.ok("subscription", "link", name, f"{path}/more")
    assert f"{path}/more" in mainstem.ok("subscription", "get", name)
    mainstem.ok("subscription", "unlink", name, f"{path}/more")
    assert f"{path}/more" not in mainstem.ok("subscription", "get", name)
    assert mainstem.ok("subscription", "rm", name) == f"deleted {name}\n"
    mainstem("subscription", "get", name).fails(5, name)


def test_an_operator_pauses_resumes_and_redelivers(mainstem, path):
    name = path.replace("/", "-")
    mainstem.ok("stream", "create", f"{path}/wakes", "--type", "json")
    mainstem.ok("subscription", "create", name, "--stream", f"{path}/in", "--wake-stream", f"{path}/wakes")
    assert mainstem.ok("subscription", "pause", name) == f"paused {name}\n"
    assert json.loads(mainstem.ok("subscription", "pause", name, "--json")) == {"subscription_id": name, "paused": True}
    mainstem.ok("stream", "append", f"{path}/in", "--create", "text", "-m", "work")
    mainstem("subscription", "claim", name).fails(6, "paused")
    shown = mainstem.ok("subscription", "show", name)
    assert "status                paused\n" in shown
    table = [line.split() for line in shown.splitlines()[-2:]]
    start, end = f"{0:016d}_{0:016d}", f"{0:016d}_{4:016d}"
    assert table == [
        ["STREAM", "LINK", "ACKNOWLEDGED", "END", "LAG"],
        [f"{path}/in", "explicit", start, end, "4", "B"],
    ]
    assert mainstem.ok("subscription", "resume", name) == f"resumed {name}\n"
    claim = json.loads(mainstem.ok("subscription", "claim", name, "--json"))
    held = ["--wake", claim["wake_id"], "--generation", str(claim["generation"]), "--claim-token", claim["token"]]
    mainstem.ok("subscription", "ack", name, *held, "--offset", f"{path}/in", end, "--done")
    found = json.loads(mainstem.ok("subscription", "show", name, "--json"))
    assert (found["streams"][0]["lag_bytes"], found["wake_id"]) == (0, None)
    mainstem("subscription", "redeliver", name, "--from", f"{path}/in", "bad").fails(1, "offset")
    mainstem.ok("subscription", "redeliver", name, "--from", f"{path}/in", "-1")
    again = json.loads(mainstem.ok("subscription", "claim", name, "--json"))
    assert again["streams"] == claim["streams"]
    done = mainstem.ok("subscription", "redeliver", name)
    assert done == f"{name} is delivered again from its acknowledged offsets\n"
    for command in ("show", "pause", "resume", "redeliver"):
        mainstem("subscription", command, "nobody").fails(5, "nobody")


def test_an_invalid_subscription_is_refused(mainstem):
    assert mainstem("subscription", "create", "x").code == 2
    mainstem("subscription", "create", "x", "--webhook", "http://127.0.0.1/", "--stream", "a").fails(1, "webhook")
    assert "ds_" in mainstem.ok("subscription", "keys")


# The benchmark


def test_a_benchmark_is_limited_and_cleans_up(mainstem):
    done = json.loads(
        mainstem.ok("bench", "-n", "50", "--streams", "3", "--connections", "2", "--size", "10", "--json")
    )
    assert (done["appends"], done["bytes_read"]) == (50, 500)
    assert done["append_ms_median"] <= done["append_ms_p99"] <= done["append_ms_max"]
    assert mainstem.ok("stream", "ls", "bench/") == ""
    long = json.loads(mainstem.ok("bench", "-n", "1000000", "--seconds", "0.3", "--json"))
    assert 0 < long["appends"] < 1_000_000
    shown = dict(re.split("  +", line) for line in mainstem.ok("bench", "-n", "1500", "--size", "1000").splitlines())
    assert (shown["appends"], shown["bytes read"]) == ("1,500", "1.4 MiB")
    assert re.fullmatch(r"[\d,.]+ [KMG]iB/s", shown["read bytes per second"])
    assert mainstem("bench", "-n", "0").code == 2


def test_events_are_submitted_as_they_arrive(mainstem, path):
    process = mainstem.spawn("sync", "submit", "-p", path, "--json")
    for number in range(2):  # the server commits each before the next is written
        process.stdin.write(b'{"n":%d}\n' % number)
        process.stdin.flush()
        result = json.loads(process.stdout.readline())
        assert (result["status"], result["status_updated_at"][-1]) == ("committed", "Z")
    process.stdin.close()
    assert process.wait(20) == 0
    assert mainstem.ok("sync", "pull", "-p", path, "-f", "%v\\n") == '{"n":0}\n{"n":1}\n'


def test_contradictory_options_of_submit_are_refused(mainstem, path):
    done = mainstem("sync", "submit", "-p", path, "file", "-m", "{}")
    assert (done.code, "a file or --message" in done.errors) == (2, True)
    done = mainstem("sync", "submit", "--drafts", "--id", "x")
    assert (done.code, "ids of their own" in done.errors) == (2, True)
    mainstem("sync", "submit", "-p", path, "--id", "x", input='{"n":1}\n{"n":2}\n').fails(2, "single event")
    assert mainstem.ok("sync", "pull", "-p", path) == ""


def test_a_tail_of_events_ends_with_its_reader(mainstem, path):
    mainstem.ok("sync", "submit", "-p", path, "-m", "{}")
    process = mainstem.spawn("sync", "tail", "-p", path, "--since", "0")
    assert process.stdout.readline().endswith(b"{}\n")
    process.stdout.close()
    assert process.wait(20) == 141
