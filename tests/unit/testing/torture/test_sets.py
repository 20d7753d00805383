from mainstem.testing.torture.sets import SetEventParser

EVENTS = (
    b'event: data\ndata:{"stream":"a","nextOffset":"1","encoding":"json","data":["x",\n'
    b'data:"y"],"upToDate":true}\nid:one\n\n'
    b": still here\n\n"
    b'event: data\ndata:{"stream":"b","nextOffset":"2","encoding":"text","data":"x\\ny"}\nid:two\n\n'
    b'event: control\ndata:{"stream":"a","nextOffset":"1","closed":true}\nid:three\n\n'
    b'event: deleted\ndata:{"stream":"b","nextOffset":"2","deleted":true}\nid:four\n\n'
)


def test_the_pieces_of_an_event_stream_make_no_difference():
    whole = SetEventParser()
    events = list(whole.feed(EVENTS))
    assert [(event.stream, event.body()) for event in events] == [
        ("a", b'["x",\n"y"]'),
        ("b", b"x\ny"),
        ("a", b""),
        ("b", b""),
    ]
    assert [event.up_to_date for event in events] == [True, False, False, False]
    assert [event.closed for event in events] == [False, False, True, False]
    assert [event.deleted for event in events] == [False, False, False, True]
    single = SetEventParser()
    assert [event for at in range(len(EVENTS)) for event in single.feed(EVENTS[at : at + 1])] == events
    assert whole.last_id == single.last_id == "four"


def test_the_id_of_an_event_is_known_with_the_event():
    parser = SetEventParser()
    assert [parser.last_id for _ in parser.feed(EVENTS)] == ["one", "two", "three", "four"]
