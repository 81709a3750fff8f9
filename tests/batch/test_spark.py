"""Spark's workers return the results of one process, and a worker that dies loses nothing."""

import shutil
import sys

import pytest
from helpers.many_texts import assert_same_entities, assert_same_vectors, many, mortal

from txexport.batch import Predictor

pytest.importorskip("pyspark", reason="needs pyspark: pip install '.[spark]'")
pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
]


@pytest.fixture(scope="module")
def spark():
    """Two cores of this machine; a task is tried again up to 4 times."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
        session = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "50").getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


def frame(spark, texts: list[str]):
    return spark.createDataFrame(list(enumerate(texts)), "id int, text string").repartition(4)


def answers(spark, texts: list[str], function) -> list:
    """The results of a function of the text, in the order of the texts."""
    rows = frame(spark, texts).select("id", function("text").alias("answer")).collect()
    assert sorted(row["id"] for row in rows) == list(range(len(texts)))
    return [row["answer"] for row in sorted(rows, key=lambda row: row["id"])]


def dicts(entities: list) -> list[list[dict]]:
    return [[entity.asDict() for entity in row] for row in entities]


@pytest.mark.parametrize("count", [400, pytest.param(50_000, marks=pytest.mark.slow)])
def test_two_workers_answer_as_one_process(count, spark, shipped, alone):
    texts = many(count)
    embed = Predictor.for_spark(shipped["embed"], "embed", device="cpu")
    tag = Predictor.for_spark(shipped["tag"], "tag", device="cpu")
    assert_same_vectors(answers(spark, texts, embed), alone("embed", texts))
    assert_same_entities(dicts(answers(spark, texts, tag)), alone("tag", texts))


def test_a_worker_that_is_killed_loses_nothing(spark, shipped, alone, tmp_path):
    texts, mark = many(400), tmp_path / "killed"
    tag = mortal(mark).for_spark(shipped["tag"], "tag", device="cpu")
    assert_same_entities(dicts(answers(spark, texts, tag)), alone("tag", texts))
    assert mark.exists()


def test_an_error_names_the_row_and_null_goes_on(spark, shipped):
    from pyspark.errors import PythonException

    texts = ["one", "the " * 900]
    strict = Predictor.for_spark(shipped["tag"], "tag", device="cpu")
    with pytest.raises(PythonException, match=r"InputError: row \d of \d in its batch, 'the the"):
        answers(spark, texts, strict)
    lenient = Predictor.for_spark(shipped["tag"], "tag", device="cpu", on_error="null")
    good, bad = answers(spark, texts, lenient)
    assert good["entities_error"] is None
    assert bad["entities"] is None
    assert "longer than" in bad["entities_error"]


def test_a_task_takes_its_share_of_cores(spark):
    from pyspark.sql.functions import udf

    def share(_):
        from txexport.batch.cores import share_of_cores

        return share_of_cores()

    assert answers(spark, ["a"], udf(share, "int")) == [1]
