"""`mainstem stream`, with standard input and output."""

import json
import re
import signal
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.command_line import COMMAND


def lines(process, number):
    return [process.stdout.readline().decode().rstrip("\n") for _ in range(number)]


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


def test_bytes_are_written_and_read_unchanged(mainstem, path):
    data = bytes(range(256)) * 3_000  # several appends, which do not end at line boundaries
    assert mainstem.ok("stream", "create", path) == f"created {path}\n"
    assert mainstem.ok("stream", "create", path) == f"{path} already exists\n"
    said = mainstem.ok("stream", "append", path, input=data)
    assert said == f"appended 750.0 KiB to {path}; it ends at 0000000000000000_0000000000768000\n"
    assert mainstem("stream", "read", path).output == data


def test_each_line_is_a_message_of_a_json_stream(mainstem, path, tmp_path):
    sent = '{"n": 1}\n\n [1,2] \n"three"'  # blank lines are ignored, and the last line needs no newline
    done = json.loads(mainstem.ok("stream", "append", path, "--create", "json", "--json", input=sent))
    assert (done["messages"], done["path"]) == (3, path)
    assert mainstem.ok("stream", "read", path) == '{"n": 1}\n[1,2]\n"three"\n'
    (tmp_path / "more").write_text("".join(f"{n}\n" for n in range(2_500)))
    done = json.loads(mainstem.ok("stream", "append", path, "more", "--json"))
    assert (done["appends"], done["messages"]) == (3, 2_500)
    assert mainstem.ok("stream", "read", path).splitlines()[3:] == [str(n) for n in range(2_500)]


def test_messages_can_be_arguments_and_a_stream_can_be_closed_with_the_last(mainstem, path):
    mainstem.ok("stream", "append", path, "--create", "json", "-m", "[1]", "-m", '{"a":2}', "--close")
    assert mainstem.ok("stream", "tail", path) == '[1]\n{"a":2}\n'  # ends on its own: the stream is closed
    assert json.loads(mainstem.ok("stream", "head", path, "--json"))["closed"] is True
    mainstem("stream", "append", path, "-m", "3").fails(6, path, "closed")


def test_an_append_can_require_the_end_of_the_stream(mainstem, path):
    made = json.loads(mainstem.ok("stream", "create", path, "--type", "text", "--json"))
    mainstem.ok("stream", "append", path, "--if-match", made["next_offset"], input="one\n")
    mainstem("stream", "append", path, "--if-match", made["next_offset"], input="two\n").fails(6, "ends at")
    done = mainstem("stream", "append", path, "--if-match", made["next_offset"], "-m", "a", "-m", "b")
    done.fails(2, "--if-match is for a single append")
    assert mainstem.ok("stream", "read", path) == "one\n"


def test_reads_can_be_formatted_and_resumed(mainstem, path):
    mainstem.ok("stream", "append", path, "--create", "json", input='{"n":1}\n{"n":2}\n{"n":3}\n')
    found = rows(mainstem.ok("stream", "read", path, "--json"))
    assert [row["value"] for row in found] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert mainstem.ok("stream", "read", path, "--offset", found[0]["offset"]) == '{"n":2}\n{"n":3}\n'
    assert mainstem.ok("stream", "read", path, "-n", "1") == '{"n":1}\n'
    assert mainstem.ok("stream", "read", path, "-f", r"%n:%v%%\t") == '1:{"n":1}%\t2:{"n":2}%\t3:{"n":3}%\t'


def test_a_stream_is_read_from_a_time_on(mainstem, path):
    mainstem.ok("stream", "append", path, "--create", "json", input='{"n":1}\n')
    mainstem.ok("stream", "append", path, input='{"n":2}\n')
    times = [
        row["committed_at"]
        for row in rows(mainstem.ok("log", "tail", "--after", "0", "--no-follow", "--stream", path, "--json"))
    ]
    assert mainstem.ok("stream", "read", path, "--since", times[0]) == '{"n":1}\n{"n":2}\n'
    assert mainstem.ok("stream", "read", path, "--since", times[1]) == '{"n":2}\n'
    assert mainstem.ok("stream", "read", path, "--since", "1990-01-01") == '{"n":1}\n{"n":2}\n'
    assert mainstem.ok("stream", "read", path, "--since", "2999-01-01T00:00:00+02:00") == ""
    unknown = mainstem("stream", "read", path, "--since", "yesterday")
    assert (unknown.code, "'yesterday' is not a time" in unknown.errors) == (2, True)
    both = mainstem("stream", "read", path, "--since", times[0], "--offset", "-1")
    assert (both.code, "give --offset or --since, not both" in both.errors) == (2, True)


def test_the_lines_of_text_have_offsets_too(mainstem, path):
    mainstem.ok("stream", "append", path, "--create", "text", input="a\nbb\r\nccc")
    found = rows(mainstem.ok("stream", "read", path, "--json"))
    assert [row["value"] for row in found] == ["a", "bb\r", "ccc"]
    assert mainstem("stream", "read", path, "--offset", found[0]["offset"]).output == b"bb\r\nccc"
    mainstem.ok("stream", "append", path, input=b"\xff\n")
    assert rows(mainstem.ok("stream", "read", path, "--json"))[-1]["value_base64"] == "Y2Nj/w=="


def test_a_tail_shows_the_last_messages_in_the_given_form(mainstem, path):
    mainstem.ok("stream", "append", path, "--create", "json", input="".join(f"{n}\n" for n in range(20)))
    done = mainstem.ok("stream", "tail", path, "-n", "2", "-f", r"%o %v\n", "--no-follow").splitlines()
    assert [line.split()[1] for line in done] == ["18", "19"]
    assert mainstem.ok("stream", "read", path, "--offset", done[0].split()[0]) == "19\n"
    assert mainstem.ok("stream", "tail", path, "--no-follow").splitlines() == [str(n) for n in range(10, 20)]


@pytest.mark.parametrize("appends", [["1\n2\n3\n4\n5"], ["1\n", "2\n", "3\n", "4\n", "5"], list("1\n2\n3\n4\n5")])
def test_a_tail_of_text_counts_lines_however_they_were_appended(mainstem, path, appends):
    arguments = [word for text in appends for word in ("-m", text)]
    mainstem.ok("stream", "append", path, "--create", "text", *arguments)
    assert mainstem.ok("stream", "tail", path, "-n", "2", "--no-follow") == "4\n5"
    assert mainstem.ok("stream", "tail", path, "-n", "9", "--no-follow") == "1\n2\n3\n4\n5"


def test_a_tail_follows_until_ctrl_c(mainstem, path):
    mainstem.ok("stream", "append", path, "--create", "json", input="1\n2\n")
    tail = mainstem.spawn("stream", "tail", path, "-n", "1")
    assert lines(tail, 1) == ["2"]
    mainstem.ok("stream", "append", path, input="3\n4\n")
    assert lines(tail, 2) == ["3", "4"]
    tail.send_signal(signal.SIGINT)
    assert tail.wait(30) == 130
    assert tail.stderr.read() == b""


def test_an_append_of_a_slow_input_sends_each_line_at_once(mainstem, path):
    mainstem.ok("stream", "create", path, "--type", "json")
    tail = mainstem.spawn("stream", "tail", path)
    append = mainstem.spawn("stream", "append", path)
    for number in range(3):
        append.stdin.write(b"%d\n" % number)
        append.stdin.flush()
        assert lines(tail, 1) == [str(number)]
    append.stdin.close()
    assert append.wait(30) == 0


def test_many_streams_are_watched_over_one_connection(mainstem, path):
    for name in ("a", "b"):
        mainstem.ok("stream", "create", f"{path}/{name}", "--type", "json" if name == "a" else "text")
    watch = mainstem.spawn("stream", "watch", "--prefix", f"{path}/", "--offset", "-1")
    mainstem.ok("stream", "append", f"{path}/a", "--close", input='{"n":1}\n')
    assert lines(watch, 1) == [f'{path}/a {{"n":1}}']
    mainstem.ok("stream", "append", f"{path}/b", "--close", input="text\nmore")
    assert lines(watch, 2) == [f"{path}/b text", f"{path}/b more"]
    assert watch.wait(30) == 0


def test_streams_are_listed_described_forked_closed_and_deleted(mainstem, path):
    mainstem.ok("stream", "create", f"{path}/1", "--type", "text", "--ttl", "1h", "--retention", "max-messages=5")
    mainstem.ok("stream", "append", f"{path}/1", input="source")
    mainstem.ok("stream", "fork", f"{path}/2", f"{path}/1")
    mainstem.ok("stream", "append", f"{path}/2", input=" and fork")
    assert mainstem.ok("stream", "ls", f"{path}/") == f"{path}/1\n{path}/2\n"
    assert mainstem.ok("stream", "ls", f"{path}/", "-n", "1") == f"{path}/1\n"
    assert [row["forked_from"] for row in rows(mainstem.ok("stream", "ls", f"{path}/", "--json"))] == [
        None,
        f"{path}/1",
    ]
    assert mainstem.ok("stream", "read", f"{path}/2") == "source and fork"
    facts = json.loads(mainstem.ok("stream", "head", f"{path}/1", "--json"))
    assert (facts["ttl_seconds"], facts["retention"], facts["content_type"]) == (3600, "max-messages=5", "text/plain")
    assert "ttl seconds      3600 (1h)" in mainstem.ok("stream", "head", f"{path}/1")
    assert mainstem.ok("stream", "close", f"{path}/2") == f"closed {path}/2\n"
    assert mainstem.ok("stream", "rm", f"{path}/2", f"{path}/1").count("deleted ") == 2
    assert mainstem.ok("stream", "ls", f"{path}/") == ""


def test_a_long_list_is_a_table_for_people(mainstem, path):
    mainstem.ok("stream", "append", f"{path}/a", "--create", "json", input="".join(f"{n}\n" for n in range(1_200)))
    mainstem.ok("stream", "create", f"{path}/b", "--type", "text", "--ttl", "90m", "--closed")
    mainstem.ok("stream", "append", f"{path}/c", "--create", "binary", input=bytes(2_984_089))
    table = mainstem.ok("stream", "ls", f"{path}/", "--long").splitlines()
    assert table[0].split() == ["PATH", "MESSAGES", "SIZE", "AGE", "TTL", "STATE", "TYPE"]
    cells = [re.split("  +", line) for line in table[1:]]
    assert [row[0] for row in cells] == [f"{path}/a", f"{path}/b", f"{path}/c"]
    assert [row[1] for row in cells][:2] == ["1,200", "0"]
    assert [row[2] for row in cells] == ["4.8 KiB", "0 B", "2.8 MiB"]
    assert all(re.fullmatch(r"\d+s|\d+m(\d+s)?", row[3]) for row in cells)
    assert [row[4:] for row in cells] == [
        ["-", "open", "application/json"],
        ["1h30m", "closed", "text/plain"],
        ["-", "open", "application/octet-stream"],
    ]
    c = rows(mainstem.ok("stream", "ls", f"{path}/", "--json"))[2]
    assert c["bytes"] == 2_984_089  # for programs, numbers stay as they are


def test_a_description_says_when_the_stream_was_created_and_how_much_it_holds(mainstem, path):
    before = datetime.now(UTC)
    mainstem.ok("stream", "append", path, "--create", "json", input='{"n":1}\n{"n":2}\n')
    mainstem.ok("stream", "create", f"{path}/longer")  # its path begins with the same text
    facts = json.loads(mainstem.ok("stream", "head", path, "--json"))
    created = datetime.fromisoformat(facts["created_at"])
    assert before - timedelta(seconds=1) <= created <= datetime.now(UTC)
    assert (facts["messages"], facts["bytes"]) == (2, 16)
    shown = mainstem.ok("stream", "head", path)
    assert f"created at       {facts['created_at']}\n" in shown
    assert "bytes            16 B\n" in shown
    assert "forked from" not in shown


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["read", "nowhere"], 5, "there is no such stream"),
        (["append", "nowhere", "-m", "x"], 5, "there is no such stream"),
        (["tail", "nowhere"], 5, "nowhere"),
        (["rm", "nowhere"], 5, "nowhere"),
        (["fork", "new", "nowhere"], 5, "nowhere"),
        (["watch", "nowhere"], 5, "nowhere"),
        (["watch", "--prefix", "nowhere/"], 2, "nothing to watch"),
        (["create", "x/y", "--ttl", "5", "--expires-at", "2030-01-01T00:00:00Z"], 1, "Stream-"),
        (["append", "x", "/nowhere/file"], 5, "no such stream"),
    ],
)
def test_a_refusal_of_the_server_is_reported_in_one_line(mainstem, arguments, code, said):
    mainstem("stream", *arguments).fails(code, said)


def test_invalid_input_is_named_by_its_line_and_the_stored_messages_are_reported(mainstem, path, tmp_path):
    mainstem.ok("stream", "create", path, "--type", "json")
    mainstem("stream", "append", path, input='{"n":1}\n{"n":\n').fails(2, "line 2 of standard input is not JSON")
    assert mainstem.ok("stream", "read", path) == ""  # one piece of input is stored as a whole or not at all
    mainstem("stream", "append", path, "/nowhere/file").fails(7, "/nowhere/file: No such file")
    (tmp_path / "good").write_text('{"n":1}\n')
    done = mainstem("stream", "append", path, "good", "/nowhere/file")
    done.fails(7, "/nowhere/file", "The first 1 messages are stored, up to offset")


@pytest.mark.parametrize(
    "arguments",
    [
        ["read"],
        ["nonsense"],
        ["create", "a/../b"],
        ["create", "/a"],
        ["read", "x", "-f", "%q"],
        ["create", "x", "--ttl", "y"],
    ],
)
def test_invalid_usage_exits_with_2(shell, arguments):
    done = shell("stream", *arguments)
    assert done.code == 2
    assert "Traceback" not in done.errors


def test_a_reader_that_closes_the_output_ends_the_command_silently(mainstem, path):
    mainstem.ok("stream", "append", path, "--create", "text", input="line\n" * 400_000)
    reading = mainstem.spawn("stream", "read", path)
    head = subprocess.run(["head", "-1"], stdin=reading.stdout, capture_output=True, timeout=30, check=True)
    reading.stdout.close()
    assert head.stdout == b"line\n"
    assert (reading.wait(30), reading.stderr.read()) == (141, b"")


def test_a_full_disk_at_standard_output_is_reported(mainstem, path):
    mainstem.ok("stream", "append", path, "--create", "text", "-m", "data")
    with open("/dev/full", "wb") as full:
        command = [*COMMAND, "stream", "read", path]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=mainstem.environment, check=False)
    assert done.returncode == 7
    assert done.stderr.decode().startswith("mainstem: no space is left")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    "command", [["stream", "tail"], ["stream", "watch", "--offset", "-1"], ["log", "tail", "--stream"]]
)
def test_a_follower_ends_with_its_reader_even_if_no_more_data_arrives(mainstem, path, command):
    mainstem.ok("stream", "append", path, "--create", "json", "-m", "1")
    process = mainstem.spawn(*command, path)
    assert lines(process, 1)[0].endswith("1")
    process.stdout.close()
    assert process.wait(20) == 141
    assert process.stderr.read() == b""


def test_an_append_to_a_missing_stream_names_how_to_create_one(mainstem, path):
    mainstem("stream", "append", path, input="hello\n").fails(5, path, "mainstem stream create", "--create")


def test_the_messages_of_a_whole_input_are_counted(mainstem, path):
    mainstem.ok("stream", "create", path, "--type", "json")
    done = json.loads(mainstem.ok("stream", "append", path, "--whole", "--json", input="[1, [2], 3]\n"))
    assert (done["appends"], done["messages"]) == (1, 3)
    assert mainstem.ok("stream", "read", path) == "1\n[2]\n3\n"
    mainstem("stream", "append", path, "--whole", input="1\n2\n").fails(2, "standard input is not JSON")
    done = json.loads(mainstem.ok("stream", "append", path, "--json", "-m", "4", "-m", "[5]"))
    assert (done["messages"], done["bytes"]) == (2, 4)
