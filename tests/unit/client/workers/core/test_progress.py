from mainstem.client.workers.core.progress import Progress


def test_nothing_waits_at_first():
    progress = Progress()
    assert (progress.is_waiting, progress.moved, progress.finished, progress.pending()) == (False, False, False, {})


def test_only_the_latest_offset_of_a_stream_is_acknowledged():
    progress = Progress()
    progress.note("a", "1")
    progress.note("b", "1")
    progress.note("a", "2")
    assert progress.pending() == {"a": "2", "b": "1"}
    assert progress.is_waiting


def test_an_offset_that_moves_while_a_request_is_on_its_way_is_sent_again():
    progress = Progress()
    progress.note("a", "1")
    progress.note("b", "1")
    sent = progress.pending()
    progress.note("a", "2")
    progress.confirm(sent)
    assert progress.pending() == {"a": "2"}
    progress.confirm({"a": "2"})
    assert not progress.is_waiting
    assert progress.moved


def test_the_end_is_reported_even_without_offsets():
    progress = Progress()
    progress.finish()
    assert progress.is_waiting
    assert not progress.moved
