"""The targets, in one module per part of the product. Each module lists its own as `TARGETS`."""

from functools import cache
from importlib import import_module
from typing import Final

from mainstem.testing.fuzz.target import Target

FAMILIES: Final = ("edge", "frames", "requests", "rules", "json_values", "sync", "access", "clients", "storage")


@cache
def load_targets() -> dict[str, Target]:
    """Return all targets by name. Their modules are imported here, so that a fuzzer can instrument what they use."""
    modules = [import_module(f"{__name__}.{family}") for family in FAMILIES]
    return {target.name: target for module in modules for target in module.TARGETS}
