from mainstem.pipeline.service.definition import SparkDefinition
from mainstem.pipeline.service.sessions import make_conf


def test_memory_is_bounded_and_the_file_has_the_last_word():
    assert make_conf(SparkDefinition(), 1) == {"spark.driver.memory": "1g"}
    conf = make_conf(SparkDefinition(memory="2g", worker_memory="3g", conf={"spark.scheduler.mode": "FIFO"}), 2)
    assert conf == {
        "spark.driver.memory": "2g",
        "spark.executor.pyspark.memory": "3g",
        "spark.scheduler.mode": "FIFO",
    }
    assert make_conf(SparkDefinition(), 2)["spark.scheduler.mode"] == "FAIR"
