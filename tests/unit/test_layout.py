"""A unit test has the path and the name of the module that it tests."""

from pathlib import Path

import mainstem

UNIT = Path(__file__).parent
SOURCE = Path(mainstem.__file__).parent
OF_NO_MODULE = {Path("test_layout.py"), Path("test_exported_members.py")}  # they test the tree and the root package
TESTS = sorted({file.relative_to(UNIT) for file in UNIT.rglob("test_*.py")} - OF_NO_MODULE)


def test_every_unit_test_has_the_path_and_the_name_of_its_module():
    modules = {test: SOURCE / test.with_name(test.name.removeprefix("test_")) for test in TESTS}
    assert len(modules) > 50
    assert not [str(test) for test, module in modules.items() if not is_module(module)]


def is_module(file: Path) -> bool:
    return file.exists() or (file.with_suffix("") / "__init__.py").exists()
