from mainstem.streams.rules.offsets import Offset


def test_a_read_that_misses_an_acknowledged_append(story):
    story.append("a")
    story.append("b")
    story.read(messages=("a",), next=Offset(0, 2))
    assert story.rules() == {"stale end"}


def test_a_head_that_misses_what_another_client_has_read(story):
    story.append("a", end=None)
    story.read()
    story.head_of(next=Offset(0, 0))
    assert story.rules() == {"stale end"}


def test_a_page_before_the_end_and_a_live_read_may_be_older(story):
    story.append("a")
    story.append("b")
    story.read(messages=("a",), next=Offset(0, 2), up_to_date=False)
    story.read(messages=("a",), next=Offset(0, 2), live=True)
    assert story.rules() == set()


def test_a_read_at_the_same_time_may_miss_an_append(story):
    append = story.append("a")
    story.read(messages=(), next=Offset(0, 0), start=append.end)
    assert story.rules() == set()


def test_a_closed_stream_that_opens_again(story):
    story.append(closes=True)
    story.head_of(closed=False)
    assert story.rules() == {"reopened"}


def test_a_close_that_has_no_effect(story):
    story.append(closes=True, closed=False)
    story.read(closed=False)
    assert story.rules() == {"reopened"}


def test_an_append_that_is_accepted_after_a_close(story):
    story.append("a", closes=True)
    story.append("b", closed=False)
    assert "append after close" in story.rules()


def test_a_message_without_an_answer_that_was_stored_after_a_close(story):
    story.append(closes=True)
    story.append("a", end=None)
    assert story.rules() == {"append after close"}


def test_a_stream_that_is_closed_at_two_positions(story):
    story.append("a")
    story.append(closes=True)
    story.read(messages=(), next=Offset(0, 0), up_to_date=False)
    assert "append after close" in story.rules()


def test_a_stream_that_nobody_closed(story):
    story.append("a")
    story.refuse("tail_moved", "b", closes=True, if_match=Offset(0, 0), next=Offset(0, 2))
    story.refuse("stream_closed", "c", next=Offset(0, 2), closed=True)
    assert story.rules() == {"closed by nobody"}


def test_a_new_incarnation_that_nobody_closed(story):
    story.append(closes=True)
    story.delete()
    story.create()
    story.refuse("stream_closed", "a", next=Offset(1, 0), closed=True)
    assert story.rules() == {"closed by nobody"}


def test_a_close_without_an_answer_may_have_closed_the_stream(story):
    story.append(closes=True, end=None)
    story.refuse("stream_closed", "a", next=Offset(0, 0), closed=True)
    assert story.rules() == set()


def test_a_deleted_stream_that_is_still_read(story):
    story.append("a")
    story.read()
    story.delete()
    story.head_of(next=Offset(0, 2))
    assert story.rules() == {"deleted but alive"}


def test_a_live_read_that_began_before_the_delete_may_end_later(story):
    story.append("a")
    began = story.now
    story.delete()
    story.read(start=began, messages=("a",), next=Offset(0, 2), live=True)
    assert story.rules() == set()


def test_a_stream_that_is_missing_although_nobody_deleted_it(story):
    story.refuse("stream_not_found", "a")
    assert story.rules() == {"vanished"}


def test_a_new_incarnation_that_is_missing_although_only_the_old_one_was_deleted(story):
    story.delete()
    story.create()
    story.refuse("stream_not_found", "a")
    assert story.rules() == {"vanished"}


def test_a_delete_without_an_answer_may_have_deleted_the_stream(story):
    story.delete(end=None)
    story.refuse("stream_not_found", "a")
    assert story.rules() == set()


def test_an_incarnation_without_a_delete_before_it(story):
    story.create()
    assert story.rules() == {"incarnation without a delete"}


def test_one_incarnation_that_was_created_twice(story):
    story.create(next=Offset(0, 0))
    assert story.rules() == {"created twice"}


def test_one_incarnation_that_was_deleted_twice(story):
    story.delete()
    story.delete()
    assert story.rules() == {"deleted twice"}


def test_an_end_whose_messages_were_not_sent_yet(story):
    story.head_of(next=Offset(0, 2))
    story.append("a")
    assert story.rules() == {"end from the future"}


def test_an_end_after_the_end_of_a_closed_stream(story):
    story.append("a", closes=True)
    story.head_of(next=Offset(0, 4), closed=False)
    assert story.rules() == {"append after close"}


def test_a_close_that_was_refused_closes_nothing(story):
    story.append("a")
    story.refuse("tail_moved", "b", closes=True, if_match=Offset(0, 0), next=Offset(0, 2))
    story.head_of()
    assert story.rules() == set()


def test_a_stream_that_was_never_created_may_be_missing(story):
    story.refuse("stream_not_found", "a", path="other")
    assert story.rules() == set()


def test_a_stream_may_be_created_again_without_effect(story):
    story.create(new=False, next=Offset(0, 0))
    assert story.rules() == set()


def test_a_delete_without_an_answer_may_have_no_effect(story):
    story.delete(end=None)
    story.head_of()
    assert story.rules() == set()


def test_a_stream_may_expire_after_its_ttl(story):
    story.create("brief", ttl=10.0)
    story.append("a", path="brief")
    story.now += 10
    story.rows.clear()
    story.refuse("stream_not_found", "b", path="brief")
    story.create("brief", ttl=10.0)
    assert story.rules() == set()


def test_a_stream_that_expires_too_early_after_a_write(story):
    story.create("brief", ttl=10.0)
    story.now += 5
    story.append("a", path="brief")
    story.now += 5
    story.refuse("stream_not_found", "b", path="brief")
    assert story.rules() == {"vanished"}


def test_a_stream_that_is_created_again_before_it_can_have_expired(story):
    story.create("brief", ttl=10.0)
    story.create("brief", ttl=10.0)
    assert story.rules() == {"incarnation without a delete"}


def test_a_creation_without_an_answer_may_have_expired(story):
    story.create("brief", ttl=10.0, end=None, next=None)
    story.now += 10
    story.create("brief", ttl=10.0)
    assert story.rules() == set()


def test_a_stream_that_was_missing_and_comes_back(story):
    story.create("brief", ttl=10.0)
    story.now += 10
    story.refuse("stream_not_found", "b", path="brief", end=story.now + 1)
    story.head_of("brief", start=story.now, end=story.now + 1)
    assert "deleted but alive" in story.rules()


def test_an_append_that_is_on_its_way_may_postpone_an_expiry_later(story):
    story.create("brief", ttl=10.0)
    append = story.append("a", path="brief")
    append.end += 14
    story.now += 10
    story.refuse("stream_not_found", "b", path="brief")
    story.now += 4
    story.head_of("brief")
    assert story.rules() == set()


def test_a_source_that_is_gone_without_a_delete(story):
    story.fork("f", Offset(0, 0))
    story.refuse("stream_gone", "a")
    assert story.rules() == {"vanished"}
