from mainstem.client.workers.core.batches import WorkerBatch


def test_a_batch_has_its_messages_and_where_they_come_from():
    batch = WorkerBatch(
        data=b'[{"n":1}]', offset="2", content_type="application/json", stream="a", start_offset="1", generation=4
    )
    assert batch.messages == [{"n": 1}]
    assert (batch.stream, batch.start_offset, batch.offset, batch.attempt, batch.trimmed) == ("a", "1", "2", 1, False)
