"""What all tests share."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["mainstem.testing.plugin"]

# A run must not depend on the machine's speed; examples are bounded in number where they are used.
settings.register_profile("mainstem", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mainstem")

# Here a test that starts processes or writes files belongs to the slow half: together they take many minutes.
HEAVY = frozenset(["cli", "client", "log_api", "pipeline", "spark", "sync_client"])
DATABASE = "postgres"
OF_PROCESSES = frozenset(["start_server", "tmp_path_factory"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder == DATABASE or (folder in HEAVY and OF_PROCESSES & set(getattr(item, "fixturenames", ()))):
            item.add_marker(pytest.mark.slow)
