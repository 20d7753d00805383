"""The clients and packages of other people that the tests of this folder run, with their versions."""

import json
import re
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = re.findall(r"checkout ([0-9a-f]{40})", (HERE / "test_official_clients.py").read_text())[0][:7]

AUTOMATED: dict[str, str] = {
    **json.loads((HERE / "package.json").read_text())["dependencies"],
    "durable-streams": version("durable-streams"),
    "client-go": SOURCE,
    "client-rust": SOURCE,
    "client-java": SOURCE,
}
