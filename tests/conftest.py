"""What all tests share."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["mainstem.testing.plugin"]

# A run must not depend on the machine's speed; examples are bounded in number where they are used.
settings.register_profile("mainstem", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mainstem")
