"""The ten lines of the README, run as they are, with a model."""

import re
from pathlib import Path

import httpx2

README = Path(__file__).parents[2] / "README.md"


async def my_model(question):
    yield "You asked: "
    yield question


async def test_the_ten_lines_answer_a_question(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```\w+\n(.*?)```", README.read_text(), re.DOTALL)
    code = blocks[1]
    assert len([line for line in code.splitlines() if line.strip()]) == 10
    names: dict = {"my_model": my_model}
    exec(compile(code, "README.md", "exec"), names)
    app = names["app"]
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://host") as http,
    ):
        for _ in range(2):  # a double click
            reply = (await http.post("/ask/7", params={"question": "why?"})).json()
        events = (await http.get(reply["events"])).text
        assert '"streamClosed":true' in events
        assert (await http.get(reply["events"].partition("?")[0])).json() == ["You asked: ", "why?"]
