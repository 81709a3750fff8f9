"""The rows of tasks: what each names exists, and every task in txexport has a row."""

from inspect import signature

import pytest
import transformers

from txexport import families
from txexport.cli.main import main
from txexport.contracts import DYNAMIC, ONE_PASS, STATIC
from txexport.runtime import Model
from txexport.spec import HeadKind
from txexport.tasks import METHODS, ROWS, TASKS, first_of_head, row_of, tasks_of_method


def test_every_task_of_a_family_has_a_row_and_every_row_a_family():
    assert set(families.by_task()) == set(TASKS)
    assert set(families.module(families.COMPOSED).TASKS) <= set(TASKS)
    assert [name for name in TASKS if name not in {row.name for row in ROWS}] == []


def test_a_task_has_one_row_for_an_architecture():
    """Else export would take whichever comes first."""
    keys = [(row.name, architecture) for row in ROWS for architecture in row.architectures]
    assert len(set(keys)) == len(keys)
    assert all(row_of(row.name, architecture) is row for row in ROWS for architecture in row.architectures)


def test_every_record_of_a_method_is_of_a_task_and_has_a_command():
    assert set(METHODS) == {method for row in ROWS for method in row.methods}
    assert all(record.name == name for name, record in METHODS.items())
    assert {record.command for record in METHODS.values()} <= set(main.commands)
    for record in METHODS.values():
        arguments = signature(getattr(Model, record.name)).parameters
        assert ("first_place" in arguments) == record.first_place


@pytest.mark.parametrize("task", ROWS, ids=lambda task: task.name)
def test_a_row_names_what_there_is(task):
    assert all(callable(getattr(Model, method)) for method in task.methods)
    assert main.get_command(None, task.command) is not None
    assert hasattr(transformers, task.auto_class)
    assert all(hasattr(transformers, name) for name in task.auto_classes.values())
    assert task.contracts in ((ONE_PASS,), (STATIC, DYNAMIC))
    assert task.caches == (task.head == HeadKind.CAUSAL_LM)


def test_every_command_for_a_bundle_serves_a_task():
    """Else a bundle that does not support it could not be told from one that does."""
    served = {method for task in ROWS for method in task.methods}
    others = {
        "export",
        "attest",
        "quantize",
        "verify",
        "bench",
        "compare",
        "compare_dtypes",
        "inspect",
        "families",
        "score",
        "serve",
        "to_openvino",
    }
    others |= {"attention", "chat"}  # outputs of graphs, whatever the task; a conversation by chat template
    assert {name.replace("-", "_") for name in main.commands} - others <= served


def test_the_first_task_of_a_method_is_the_one_to_export_for():
    assert tasks_of_method("fill_mask") == ("fill-mask", "pretraining")
    assert tasks_of_method("next_sentence") == ("next-sentence-prediction", "pretraining")
    assert tasks_of_method("embed_image") == ("image-feature-extraction", "zero-shot-image-classification")
    assert tasks_of_method("generate")[0] == "text-generation"
    assert tasks_of_method("embed")[0] == "feature-extraction"


def test_the_plainest_task_of_a_head_reads_texts():
    assert {kind: first_of_head(kind).name for kind in HeadKind} == {
        HeadKind.NONE: "feature-extraction",
        HeadKind.MASKED_LM: "fill-mask",
        HeadKind.CAUSAL_LM: "text-generation",
        HeadKind.SEQUENCE: "text-classification",
        HeadKind.CHOICES: "multiple-choice",
        HeadKind.TOKENS: "token-classification",
        HeadKind.SPANS: "question-answering",
        HeadKind.CTC: "automatic-speech-recognition",
        HeadKind.SPEAKER: "audio-xvector",
        HeadKind.BOXES: "object-detection",
        HeadKind.DEPTH: "depth-estimation",
        HeadKind.SEGMENTS: "image-segmentation",
        HeadKind.MASKS: "image-segmentation",
        HeadKind.MASKED_QUERIES: "image-segmentation",
        HeadKind.OBJECT_MASKS: "image-segmentation",
        HeadKind.INSTANCE_MASKS: "image-segmentation",
        HeadKind.POSE: "pose-estimation",
        HeadKind.LAST_MAP: "image-feature-extraction",
    }


def test_an_encoder_alone_has_a_judge_of_its_own():
    """AutoModel would load the decoder too, and have nothing to compare it with."""
    assert TASKS["feature-extraction"].judge("t5") == "AutoModelForTextEncoding"
    assert TASKS["feature-extraction"].judge("bert") == "AutoModel"
