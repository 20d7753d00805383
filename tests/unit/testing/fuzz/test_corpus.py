from mainstem.testing.fuzz.corpus import read_corpus, read_line, write_corpus, write_line
from mainstem.testing.fuzz.target import Target

TARGET = Target("nothing", lambda data: None, (b"seed",))
EVERY_BYTE = bytes(range(256))


def test_a_line_can_hold_every_byte():
    line = write_line(EVERY_BYTE)
    assert line.isascii()
    assert line.isprintable()
    assert read_line(line) == EVERY_BYTE


def test_a_corpus_is_read_as_it_was_written(tmp_path):
    write_corpus(tmp_path, TARGET, [b"b", b"\\n\n", b"", b"b", b"seed"])
    assert read_corpus(tmp_path, TARGET) == [b"seed", b"", b"b", b"\\n\n"]


def test_a_target_without_a_corpus_has_its_seeds(tmp_path):
    assert read_corpus(tmp_path, TARGET) == read_corpus(None, TARGET) == [b"seed"]
