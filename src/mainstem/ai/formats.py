"""How a run says in its stream that it did not finish: the last message, in the vocabulary of the readers."""

from typing import Any, Final, Literal

from mainstem.ai.registry import Outcome

Format = Literal["plain", "ui-messages", "ag-ui"]

DEFAULT_REASONS: Final[dict[Outcome, str]] = {
    "failed": "The run failed.",
    "stopped": "The run was stopped.",
    "lost": "The process that produced this run was lost.",
}


def last_message(format: str, outcome: Outcome, reason: str) -> Any:
    """Return the message that ends a run; None for a run that has finished, whose source has said everything.

    Readers of "plain" runs and of UI message chunks (AI SDK) get an `abort` or `error` chunk, readers of AG-UI events
    (TanStack AI, CopilotKit) a RUN_ERROR event, whose code is the outcome.
    """
    if outcome == "finished":
        return None
    reason = reason or DEFAULT_REASONS[outcome]
    if format == "ag-ui":  # RUN_FINISHED is not allowed while a message is unfinished
        return {"type": "RUN_ERROR", "message": reason, "code": outcome}
    if outcome == "stopped":
        return {"type": "abort", "reason": reason}
    return {"type": "error", "errorText": reason}


def read_outcome(message: Any) -> tuple[Outcome, str]:
    """Return how a run has ended, and why, from the last message of its stream."""
    if not isinstance(message, dict):
        return "finished", ""
    match message.get("type"):
        case "RUN_ERROR":
            code = message.get("code")
            return (code if code in DEFAULT_REASONS else "failed"), str(message.get("message", ""))
        case "abort":
            return "stopped", str(message.get("reason", ""))
        case "error":
            reason = str(message.get("errorText", ""))
            return ("lost" if reason == DEFAULT_REASONS["lost"] else "failed"), reason
    return "finished", ""
