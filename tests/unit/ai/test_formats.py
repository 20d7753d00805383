import pytest

from mainstem.ai.formats import last_message, read_outcome


@pytest.mark.parametrize("format", ["plain", "ui-messages", "ag-ui"])
def test_a_source_that_has_finished_has_said_everything(format):
    assert last_message(format, "finished", "") is None


@pytest.mark.parametrize("format", ["plain", "ui-messages"])
def test_readers_of_chunks_get_an_abort_or_an_error(format):
    assert last_message(format, "stopped", "enough") == {"type": "abort", "reason": "enough"}
    assert last_message(format, "failed", "") == {"type": "error", "errorText": "The run failed."}
    assert last_message(format, "lost", "")["type"] == "error"


def test_readers_of_ag_ui_events_get_an_event():
    from ag_ui.core import RunErrorEvent

    for outcome in ("failed", "stopped", "lost"):
        assert RunErrorEvent.model_validate(last_message("ag-ui", outcome, "")).code == outcome


@pytest.mark.parametrize("format", ["plain", "ui-messages", "ag-ui"])
@pytest.mark.parametrize(
    ("outcome", "reason"),
    [("failed", "no money"), ("stopped", "enough"), ("lost", "The process that produced this run was lost.")],
)
def test_the_last_message_tells_how_a_run_ended(format, outcome, reason):
    assert read_outcome(last_message(format, outcome, reason)) == (outcome, reason)


@pytest.mark.parametrize(
    "message", [None, "text", 1, {"type": "finish"}, {"type": "RUN_FINISHED"}, {"type": ["error"]}]
)
def test_any_other_last_message_is_that_of_a_finished_run(message):
    assert read_outcome(message) == ("finished", "")


def test_an_error_of_the_agent_itself_is_a_failure():
    assert read_outcome({"type": "RUN_ERROR", "message": "no", "code": "quota"}) == ("failed", "no")
