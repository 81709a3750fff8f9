"""Ray's workers return the results of one process, and a worker that dies loses nothing."""

import numpy as np
import pytest
from helpers.many_texts import assert_same_entities, assert_same_vectors, many, mortal

from txexport.batch import Predictor
from txexport.errors import InputError

ray = pytest.importorskip("ray", reason="needs ray[data]: pip install '.[ray]'")
pytestmark = pytest.mark.xdist_group("ray")


@pytest.fixture(scope="module")
def cluster():
    """Two cores of this machine."""
    import ray.data

    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray.data
    ray.shutdown()


def rows(cluster, texts: list[str], predictor: type, method: str, bundle: str, **options) -> list[dict]:
    """The results of two workers, in the order of the texts."""
    found = cluster.from_items([{"id": i, "text": text} for i, text in enumerate(texts)]).map_batches(
        predictor,
        fn_constructor_args=[bundle, method],
        fn_constructor_kwargs={"device": "cpu", **options},
        compute=cluster.ActorPoolStrategy(size=2),
        num_cpus=1,
        batch_size=len(texts) // 8,
    )
    return sorted(found.take_all(), key=lambda row: row["id"])


@pytest.mark.parametrize("count", [400, pytest.param(50_000, marks=pytest.mark.slow)])
def test_two_workers_answer_as_one_process(count, cluster, shipped, alone):
    texts = many(count)
    embedded = rows(cluster, texts, Predictor, "embed", shipped["embed"])
    tagged = rows(cluster, texts, Predictor, "tag", shipped["tag"])
    assert [row["text"] for row in embedded] == [row["text"] for row in tagged] == texts
    assert_same_vectors([row["embedding"] for row in embedded], alone("embed", texts))
    assert_same_entities([row["entities"] for row in tagged], alone("tag", texts))


def test_a_worker_that_is_killed_loses_nothing(cluster, shipped, alone, tmp_path):
    texts, mark = many(400), tmp_path / "killed"
    tagged = rows(cluster, texts, mortal(mark), "tag", shipped["tag"])
    assert mark.exists()
    assert [row["text"] for row in tagged] == texts
    assert_same_entities([row["entities"] for row in tagged], alone("tag", texts))


def test_a_worker_takes_its_share_of_cores(cluster):
    class Share:
        def __call__(self, batch):
            from txexport.batch.cores import share_of_cores

            return {"cores": np.full(len(batch["id"]), share_of_cores())}

    rows = cluster.range(4).materialize()  # a worker with both cores leaves none for reading
    found = rows.map_batches(Share, compute=cluster.ActorPoolStrategy(size=1), num_cpus=2, batch_size=4)
    assert [row["cores"] for row in found.take_all()] == [2] * 4


def test_an_error_names_the_row(cluster, shipped):
    from ray.exceptions import RayTaskError

    with pytest.raises(RayTaskError) as error:
        rows(cluster, ["one", "the " * 900, *many(6)], Predictor, "tag", shipped["tag"])
    assert isinstance(error.value.cause, InputError) or "InputError: row 1 of 1 in its batch" in str(
        error.value
    )


def test_a_row_without_an_answer_is_null(cluster, shipped):
    texts = ["one", "the " * 900, *many(14)]
    found = rows(cluster, texts, Predictor, "embed", shipped["embed"], on_error="null")
    assert [row["embedding"] is None for row in found] == [False, True, *[False] * 14]
    assert "longer than" in found[1]["embedding_error"]
