import pytest

from mainstem.ai.formats import last_message


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
