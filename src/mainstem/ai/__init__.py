"""Answers of models and agents as durable streams: they survive reloads, lost connections and deploys.

`durable(source, stream=...)` writes any async iterator to a stream, detached from the request that started it. The
modules `pydantic_ai`, `langgraph`, `openai_agents`, `ag_ui` and `mcp` connect it with other people's libraries.
"""

from mainstem.ai.runs import Run, Runs, durable, resume

__all__ = ["Run", "Runs", "durable", "resume"]
