"""The staging directory: the first manifest counts, and files that no replay can need are removed."""

import os

import pytest

from mainstem.errors import BadOption, StageLost
from mainstem.pipeline.datasource.staging_directory import Frame, Manifest, StagingDirectory
from mainstem.pipeline.filesystems import open_location


def stage_file(staging, batch, partition, *frames):
    writer = staging.open_writer(batch, partition)
    for name, rows, body in frames:
        writer.write(name, rows, body[:1], body[1:])
    return writer.close()


def test_frames_are_read_back_as_they_were_written(tmp_path):
    staging = StagingDirectory(str(tmp_path), "query")
    frames = [Frame("a/ä", 2, b"[1,2]"), Frame("", 1, b""), Frame("b", 1, bytes(100_000))]
    file = stage_file(staging, 3, 0, *frames)
    assert (file.frames, file.rows, file.size) == (3, 4, os.path.getsize(file.path))
    assert list(staging.read_frames(file)) == frames


def test_the_first_manifest_wins(tmp_path):
    staging = StagingDirectory(str(tmp_path), "query")
    first, second = stage_file(staging, 0, 0, ("a", 1, b"x")), stage_file(staging, 0, 0, ("a", 1, b"y"))
    assert staging.read_manifest(0) is None
    assert staging.write_manifest(0, Manifest("t", [first])).files == [first]
    assert staging.write_manifest(0, Manifest("t", [second])).files == [first]


def test_a_batch_stays_marked_as_done_until_a_later_one_is_done(tmp_path):
    staging = StagingDirectory(str(tmp_path), "query")
    for batch in (8, 9, 10):
        manifest = staging.write_manifest(batch, Manifest("t", [stage_file(staging, batch, 0, ("a", 1, b"x"))]))
        stage_file(staging, batch, 0, ("a", 1, b"of an attempt that failed"))
        staging.mark_done(batch, manifest)
        staging.clean(batch)
        assert os.listdir(staging.folder) == [str(batch)]
        assert os.listdir(staging.batch_folder(batch)) == ["manifest.json"]
        assert staging.read_manifest(batch) == Manifest("t", [], done=True)


def test_producers_have_separate_directories_whatever_their_names(tmp_path):
    one, other = StagingDirectory(str(tmp_path), "../a/b"), StagingDirectory(str(tmp_path), "a%2Fb")
    assert one.folder != other.folder
    assert os.path.dirname(one.folder) == os.path.dirname(other.folder) == str(tmp_path / "mainstem-sink")


def test_a_missing_or_truncated_file_is_an_error(tmp_path):
    staging = StagingDirectory(str(tmp_path), "query")
    file = stage_file(staging, 0, 0, ("a", 1, b"12345"))
    os.truncate(file.path, file.size - 1)
    with pytest.raises(StageLost, match="is truncated"):
        list(staging.read_frames(file))
    staging.discard(file.path)
    staging.discard(file.path)
    with pytest.raises(StageLost, match="is missing"):
        list(staging.read_frames(file))


@pytest.mark.parametrize("location", ["/a/b", "file:/a/b", "file:///a/b"])
def test_sparks_spellings_of_a_local_path_are_understood(location):
    assert open_location(location)[1] == "/a/b"


def test_a_location_that_cannot_be_opened_is_refused():
    with pytest.raises(BadOption, match="scheme 'dbfs' is unknown"):
        open_location("dbfs:/a/b")
