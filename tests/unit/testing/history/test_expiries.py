from mainstem.streams.rules.offsets import Offset


def test_a_stream_that_outlives_its_ttl(story):
    story.create("brief", ttl=10.0)
    story.now += 10
    story.head_of("brief")
    assert story.rules() == {"expired but alive"}


def test_writes_and_reads_postpone_an_expiry(story):
    story.create("brief", ttl=10.0)
    for use in (lambda: story.append("a", path="brief"), lambda: story.read("brief")):
        story.now += 7
        use()
    story.now += 7
    story.head_of("brief")
    assert story.rules() == set()


def test_a_head_does_not_postpone_an_expiry(story):
    story.create("brief", ttl=10.0)
    for _ in range(2):
        story.now += 7
        story.head_of("brief")
    assert story.rules() == {"expired but alive"}


def test_a_call_without_an_answer_may_have_postponed_an_expiry(story):
    story.create("brief", ttl=10.0)
    read = story.read("brief", messages=(), next=None, end=None)
    story.now += 20
    story.head_of("brief")
    assert story.rules() == set()
    read.lapsed = read.start + 1
    story.finished = False
    assert story.rules() == {"expired but alive"}


def test_a_refused_read_may_have_postponed_an_expiry(story):
    story.create("brief", ttl=10.0)
    story.now += 7
    story.read("brief", refusal="offset_gone", since=Offset(0, 0), next=None, earliest=Offset(0, 1))
    story.now += 7
    story.head_of("brief")
    assert story.rules() == set()


def test_each_incarnation_expires_on_its_own(story):
    story.create("brief", ttl=10.0)
    story.now += 20
    story.create("brief", ttl=10.0)
    story.head_of("brief")
    story.head_of("brief", next=Offset(0, 0))
    assert [violation.calls[-1].next for violation in story.check() if violation.rule == "expired but alive"] == [
        Offset(0, 0)
    ]


def test_a_creation_at_the_same_time_may_explain_a_stream(story):
    story.create("brief", ttl=10.0, end=None, next=None, lapsed=story.now + 3)
    story.now += 20
    create = story.create("brief", ttl=10.0, next=Offset(0, 0))
    story.head_of("brief", next=Offset(0, 0), start=create.start - 1)
    assert story.rules() == set()


def test_a_confirmation_of_a_stream_that_has_expired(story):
    story.create("brief", ttl=10.0)
    story.now += 20
    story.create("brief", ttl=10.0, next=Offset(0, 0), new=False)
    assert story.rules() == {"expired but alive"}
