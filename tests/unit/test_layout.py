"""Where a test of a module is to be found."""

from pathlib import Path

import mainstem

UNIT = Path(__file__).parent
SOURCE = Path(mainstem.__file__).parent
TESTS = sorted(file.relative_to(UNIT) for file in UNIT.rglob("test_*.py") if file != Path(__file__))


def test_every_unit_test_has_the_place_and_the_name_of_its_module():
    modules = {test: SOURCE / test.with_name(test.name.removeprefix("test_")) for test in TESTS}
    assert len(modules) > 50
    assert not [str(test) for test, module in modules.items() if not is_module(module)]


def is_module(file: Path) -> bool:
    return file.exists() or (file.with_suffix("") / "__init__.py").exists()
