"""Every head of the library for a supported family and task is exported, or listed here with the reason."""

import transformers

from txexport import families
from txexport.tasks import TASKS

CAUSAL = "an encoder read as a decoder (is_decoder), which no published checkpoint of its kind is"
ALONE = "the decoder without its encoder, which its checkpoints are not published as"
WRAPPED = "its decoder starts with the last token of each row, whichever that is"
BY_MASK = "positions are counted by the mask, which the graph of a whole sequence does not do"
STATEFUL = "hidden states of layers with states, which no graph of a whole sequence has"
DECODED = "hidden states of layers that share keys, which no graph of a whole sequence has"
COUNTED = "its biases count the padding between tokens, which those of a graph do not"
LABELLED = ("token-classification", "question-answering")
UNREAD = {
    (
        "qwen3_moe",
        "question-answering",
    ): "its original knows float32 alone, and so not a lone score's rounding",
    ("mobilebert", "next-sentence-prediction"): "no published checkpoint is for it",
    **{(name, "multiple-choice"): "its scores pass through the labels" for name in ("xlm", "flaubert")},
    ("big_bird", "question-answering"): "it hides the question, and has a layer of its own",
    ("xlnet", "multiple-choice"): "it reads the last place, padding or not, and graphs no row alone",
    ("splinter", "pretraining"): "it answers every question's token of a text, and no task does",
    ("roformer", "multiple-choice"): "it reads the last place, padding or not: a score depends on its batch",
    ("mbart", "text-classification"): WRAPPED,
    ("mbart", "question-answering"): WRAPPED,
    ("plbart", "text-classification"): WRAPPED,
    ("detr", "feature-extraction"): "queries, which are no result of a task",
    ("table-transformer", "feature-extraction"): "queries, which are no result of a task",
    ("conditional_detr", "feature-extraction"): "queries, which are no result of a task",
    ("deformable_detr", "feature-extraction"): "queries, which are no result of a task",
    ("rt_detr", "feature-extraction"): "queries, which are no result of a task",
    ("rt_detr_v2", "feature-extraction"): "queries, which are no result of a task",
    ("d_fine", "feature-extraction"): "queries, which are no result of a task",
    ("lw_detr", "feature-extraction"): "queries, which are no result of a task",
    ("rf_detr", "feature-extraction"): "queries, which are no result of a task",
    ("dab-detr", "feature-extraction"): "queries, which are no result of a task",
    ("dpt", "feature-extraction"): "vectors for maps, which no task gives",
    ("owlvit", "feature-extraction"): "vectors of whole images, which no published checkpoint is for",
    ("clipseg", "zero-shot-image-classification"): "CLIP's own, which no published checkpoint is for",
    ("clipseg", "feature-extraction"): "vectors of whole images, which no published checkpoint is for",
    ("grounding-dino", "feature-extraction"): "queries, which are no result of a task",
    **{
        (name, "feature-extraction"): "the decoder's hidden states, which no task gives"
        for name in (
            *("llava", "llava_next", "llava_onevision"),
            "idefics3",
            "smolvlm",
            "internvl",
            "gemma3",
            "paligemma",
            "qwen2_vl",
            "qwen2_5_vl",
            "qwen3_vl",
            "qwen3_vl_moe",
            "lfm2_vl",
            "qwen2_audio",
            "voxtral",
            "audioflamingo3",
            "florence2",
            "mistral3",
            "mllama",
        )
    },
    **{
        (name, "feature-extraction"): STATEFUL
        for name in (
            *(
                "bamba",
                "falcon_h1",
                "falcon_mamba",
                "granitemoehybrid",
                "jamba",
                "kimi_linear",
                "lfm2",
                "lfm2_moe",
                "lfm3",
                "mamba",
                "mamba2",
                "nemotron_h",
                "olmo_hybrid",
                "recurrent_gemma",
                "rwkv",
                "zamba2",
            ),
            *("qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"),
        )
    },
    **{
        (name, "feature-extraction"): DECODED for name in ("gemma3n", "gemma3n_text", "gemma4", "gemma4_text")
    },
    **{
        (name, "text-classification"): STATEFUL
        for name in ("jamba", "qwen3_5", "qwen3_5_text", "qwen3_next", "zamba2")
    },
    **{(name, "token-classification"): STATEFUL for name in ("qwen3_5", "qwen3_next")},
    ("qwen3_next", "question-answering"): STATEFUL,
    ("owlv2", "feature-extraction"): "vectors of whole images, which no published checkpoint is for",
    ("segformer", "feature-extraction"): "maps, not vectors",
    ("gemma3", "text-classification"): "scores of texts with images, which no published checkpoint gives",
    **{
        ("layoutlm", task): "tokens that are left out of a page, which pretraining alone asks for"
        for task in ("fill-mask", "pretraining")
    },
    ("donut-swin", "image-classification"): "Donut's encoder, whose published checkpoints read documents",
    ("blip", "feature-extraction"): "texts or images, of which a captioner needs no vectors",
    (
        "blip",
        "zero-shot-image-classification",
    ): "of another checkpoint than captions, which the class refuses",
    ("hiera", "pretraining"): "masked pixels, which training alone restores",
    ("maskformer", "feature-extraction"): "queries, which are no result of a task",
    ("glpn", "feature-extraction"): "maps, not vectors",
    ("mask2former", "feature-extraction"): "queries, which are no result of a task",
    ("siglip2", "image-classification"): "a mean of patches of any shape, which no published checkpoint has",
    ("whisper", "feature-extraction"): "the decoder's hidden states, which no task gives",
    ("audio-spectrogram-transformer", "feature-extraction"): "hidden states of sounds, which no task gives",
    ("mllama", "text-generation"): "the decoder without images, which the bundle with them runs too",
    ("whisper", "text-generation"): "a decoder that helps another to write, and reads the other's encoder",
    ("wav2vec2", "feature-extraction"): "hidden states of sounds, which no task gives",
    ("wav2vec2", "pretraining"): "contrastive vectors, which training alone reads",
    ("wavlm", "feature-extraction"): "hidden states of sounds, which no task gives",
    ("yolos", "feature-extraction"): "hidden states of detection tokens, which no task gives",
    ("speech_to_text", "feature-extraction"): "the decoder's hidden states, which no task gives",
    ("moonshine", "feature-extraction"): "the decoder's hidden states, which no task gives",
    ("wav2vec2-conformer", "feature-extraction"): "hidden states of sounds, which no task gives",
    ("wav2vec2-conformer", "pretraining"): "contrastive vectors, which training alone reads",
    ("wav2vec2-bert", "feature-extraction"): "hidden states of sounds, which no task gives",
    ("unispeech", "pretraining"): "contrastive vectors, which training alone reads",
    ("unispeech-sat", "pretraining"): "contrastive vectors, which training alone reads",
    **{
        (name, "feature-extraction"): "hidden states of sounds, which no task gives"
        for name in ("hubert", "data2vec-audio", "sew", "unispeech", "unispeech-sat", "omniasr_ctc")
    },
    **{("opt", task): BY_MASK for task in ("text-classification", "question-answering")},
    **{("mpt", task): COUNTED for task in ("text-classification", *LABELLED)},
    **{
        (name, "text-generation"): CAUSAL
        for name in (
            *(
                "bert",
                "big_bird",
                "camembert",
                "data2vec-text",
                "electra",
                "ernie",
                "megatron-bert",
                "rembert",
            ),
            *("roberta", "roberta-prelayernorm", "roformer", "xlm-roberta", "xlm-roberta-xl"),
        )
    },
    **{
        (name, "text-generation"): ALONE
        for name in (
            "bart",
            "blenderbot",
            "blenderbot-small",
            "marian",
            "mbart",
            "pegasus",
            "plbart",
            "mvp",
            "bigbird_pegasus",
        )
    },
}


def heads() -> dict[tuple[str, str], tuple[str, ...]]:
    """The classes of transformers by family and task, but for those that another task of the family has.

    AutoModel, which does not tell the kind of input, is listed once.
    """
    result = {}
    for model_type in families.names():
        ours = families.module(model_type).TASKS
        known = {name for classes in ours.values() for name in classes}
        for task in TASKS.values():
            judge = getattr(transformers, task.judge(model_type))
            mapping = getattr(judge, "_model_mapping", None)  # None of a class that no AutoModel loads
            classes = mapping._model_mapping.get(model_type, ()) if mapping is not None else judge.__name__
            classes = (classes,) if isinstance(classes, str) else classes
            other = task.name in (
                *("image-feature-extraction", "zero-shot-audio-classification"),
                "visual-document-retrieval",  # of a class that loads what was pretrained, of any kind
            )
            if classes and (task.name in ours or not (other or known & set(classes))):
                result[model_type, task.name] = tuple(classes)
    return result


def test_every_head_is_exported_or_named_with_a_reason():
    ours = {(name, task) for name in families.names() for task in families.module(name).TASKS}
    assert set(heads()) - ours == set(UNREAD)


def test_every_class_of_a_task_is_the_librarys():
    """Or the class belongs to a checkpoint that names it in `architectures`; six are of older code."""
    named = {
        name
        for model_type in families.names()
        for classes in families.module(model_type).TASKS.values()
        for name in classes
    }
    library = dir(transformers)
    unknown = {name for name in named if name not in library}
    older = {"MPTForCausalLM", "PhiMoEForCausalLM", "T5WithLMHeadModel"}
    assert unknown == older | {f"{name}ForCausalLM" for name in ("Exaone", "InternLM3", "IQuestCoder")}
