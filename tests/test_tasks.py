"""The rows of tasks: what each names exists, and no part of txexport knows a task that has no row."""

import pytest
import transformers

from txexport import families
from txexport.cli.main import main
from txexport.contracts import DYNAMIC, ONE_PASS, STATIC
from txexport.runtime import Model
from txexport.spec import HeadKind
from txexport.tasks import ROWS, TASKS, of_head, served_by


def test_every_task_of_a_family_has_a_row_and_every_row_a_family():
    assert set(families.by_task()) == set(TASKS)
    assert set(families.module(families.COMPOSED).TASKS) <= set(TASKS)
    assert len(TASKS) == len(ROWS)


@pytest.mark.parametrize("task", ROWS, ids=lambda task: task.name)
def test_a_row_names_what_there_is(task):
    assert all(callable(getattr(Model, method)) for method in task.methods)
    assert main.get_command(None, task.command) is not None
    assert hasattr(transformers, task.auto_class)
    assert all(hasattr(transformers, name) for name in task.auto_classes.values())
    assert task.contracts in ((ONE_PASS,), (STATIC, DYNAMIC))
    assert task.caches == (task.head == HeadKind.CAUSAL_LM)


def test_every_command_for_a_bundle_serves_a_task():
    """Else a bundle that it cannot answer would not be told from one that it can."""
    served = {method for task in ROWS for method in task.methods}
    others = {
        "export",
        "quantize",
        "verify",
        "bench",
        "compare",
        "compare_dtypes",
        "inspect",
        "families",
        "score",
        "serve",
    }
    others |= {"attention"}  # of what graphs give, whatever the task
    assert {name.replace("-", "_") for name in main.commands} - others <= served


def test_the_first_task_of_a_method_is_the_one_to_export_for():
    assert served_by("fill_mask") == ("fill-mask", "pretraining")
    assert served_by("next_sentence") == ("next-sentence-prediction", "pretraining")
    assert served_by("embed_image") == ("image-feature-extraction", "zero-shot-image-classification")
    assert served_by("generate")[0] == "text-generation"
    assert served_by("embed")[0] == "feature-extraction"


def test_the_plainest_task_of_a_head_reads_texts():
    assert {kind: of_head(kind).name for kind in HeadKind} == {
        HeadKind.NONE: "feature-extraction",
        HeadKind.MASKED_LM: "fill-mask",
        HeadKind.CAUSAL_LM: "text-generation",
        HeadKind.SEQUENCE: "text-classification",
        HeadKind.CHOICES: "multiple-choice",
        HeadKind.TOKENS: "token-classification",
        HeadKind.SPANS: "question-answering",
    }


def test_an_encoder_alone_has_a_judge_of_its_own():
    """AutoModel would load the decoder too, and compare it with nothing."""
    assert TASKS["feature-extraction"].judge("t5") == "AutoModelForTextEncoding"
    assert TASKS["feature-extraction"].judge("bert") == "AutoModel"
