"""A streaming query with the exactly-once sink that loses executors, its driver, the server and a machine."""

from tests.support.kills import kill_when
from tests.support.spark_cluster import kill_executor
from tests.support.waits import eventually

ROWS = 8_000
STEPS = 8


def test_every_row_arrives_once_although_everything_fails(
    cluster, objects, drive, start_on_fixed_port, open_log, tmp_path
):
    """The rows are staged on the object store, so only the driver needs the directory of the checkpoint."""
    server = start_on_fixed_port()
    log = open_log(server.url)
    log.append("in", [{"n": number} for number in range(ROWS)], at_once=100)
    begun = log.head_id()
    plan = {
        "master": cluster.url,
        "url": log.url,
        "reading": {"maxRowsPerTrigger": str(ROWS // STEPS)},
        "writing": {"chunkBytes": "600", "stagingLocation": f"{objects.make_bucket()}/staging"},
        "checkpoint": str(tmp_path / "checkpoint"),
    }

    def written(share):
        """Whether this share of the rows is in the log. Each chunk holds about 60 rows."""
        return lambda: log.head_id() > begun + share * ROWS / 60

    first = drive(plan)
    kill_when(Executor(cluster, first), written(0.05))
    kill_when(first, written(0.3))
    assert 0 < len(log.read("out")) < ROWS
    lost = cluster.workers[1]
    cluster.workers.remove(lost)
    try:
        second = drive(plan)
        kill_when(Restarted(server, second), written(0.4))
        kill_when(LostMachine(lost, second), written(0.6))
        second.wait()
        assert sorted(row["n"] for row in log.read("out")) == list(range(ROWS))
    finally:
        lost.stop()
        cluster.add_worker()
        cluster.await_workers()


class Executor:
    """Something to kill while a driver works."""

    def __init__(self, cluster, driver):
        self._cluster, self._driver = cluster, driver

    @property
    def running(self):
        return self._driver.running

    @property
    def ending(self):
        return self._driver.ending

    def kill(self):
        pid = kill_executor(self._cluster)
        eventually(lambda: pid not in self._cluster.executors())


class Restarted(Executor):
    def kill(self):
        self._cluster.kill()
        self._cluster.start()


class LostMachine(Executor):
    def kill(self):
        assert self._cluster.children(), "the machine has no executor"
        self._cluster.kill()
