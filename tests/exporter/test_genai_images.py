"""Bundles of images among tokens for onnxruntime-genai: its settings, and the graphs that it runs."""

import json
import re

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from helpers import pictured_families
from helpers.graph_edits import node, through
from tiny_checkpoint import VOCAB

from txexport import bundle
from txexport.contracts import roles
from txexport.errors import UnsupportedError
from txexport.exporter import export, genai_images, known_clients
from txexport.exporter.genai import GENAI
from txexport.verification import verify
from txexport.verification.reports.facts import facts_line
from txexport.verification.reports.views import graph_results

EMBEDDING, VISION = (roles.hub_path(role) for role in (roles.EMBEDDING, roles.GENAI_VISION))
FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_5")
PARTS = ("vision", "embedding")
SETTINGS = {
    "patch_size": 14,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "min_pixels": 3136,
    "max_pixels": 9999,
}


@pytest.fixture
def exported(checkpoint_of, tmp_path):
    """A function from a family to its bundle for other clients."""

    def get(family: str, **options):
        out = tmp_path / f"{family} {len([*tmp_path.iterdir()])}"
        export(checkpoint_of(family), out, **{"only": "hub", **options})
        return out

    return get


@pytest.mark.parametrize(
    ("family", "vision"),
    [
        ("qwen2_vl", VISION),
        ("qwen2_5_vl", roles.hub_path(roles.IMAGE_ENCODER)),
        ("qwen3_5", roles.hub_path(roles.IMAGE_ENCODER)),
    ],
)
def test_settings_name_graphs_inputs_and_tokens(family, vision, exported):
    folder = exported(family)
    model = json.loads((folder / GENAI).read_text())["model"]
    assert [model[part]["filename"] for part in ("vision", "embedding", "decoder")] == [
        vision,
        EMBEDDING,
        "onnx/decoder_model_merged.onnx",
    ]
    for part in ("vision", "embedding", "decoder"):
        graph = onnx.load(folder / model[part]["filename"], load_external_data=False).graph
        for kind, ports in (("inputs", graph.input), ("outputs", graph.output)):
            declared = {re.sub(r"\d+$", "%d", port.name) for port in ports}
            keys = {
                name for name in declared if name.endswith((".key", ".value"))
            }  # which it finds without settings
            assert {*model[part][kind].values()} == declared - keys
    tokens = {name: model[f"{name}_token_id"] for name in ("image", "video", "vision_start", "pad", "eos")}
    assert tokens == {"image": 310, "video": 309, "vision_start": 307, "pad": 309, "eos": 2}
    kind = "qwen3_5" if family == "qwen3_5" else "qwen2_5_vl"
    assert (model["type"], model["vocab_size"], model["context_length"]) == (kind, VOCAB, 120)
    decoder, sizes = (
        model["decoder"],
        ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_size"),
    )
    assert [decoder[name] for name in sizes] == [48, 6, 2, 12 if family == "qwen3_5" else 8]
    assert (model["vision"]["patch_size"], model["vision"]["spatial_merge_size"]) == (4, 2)
    assert (folder / model["vision"]["config_filename"]).is_file()


def test_steps_are_those_of_the_image_processor(tmp_path):
    pictured_families.save(tmp_path / "checkpoint", "qwen2_5_vl")
    export(tmp_path / "checkpoint", tmp_path / "out")
    processor = json.loads((tmp_path / "out" / genai_images.PROCESSOR).read_text())["processor"]
    steps = {step["operation"]["type"]: step["operation"]["attrs"] for step in processor["transforms"]}
    assert [*steps] == ["DecodeImage", "ConvertRGB", "Resize", "Rescale", "Normalize", "PatchImage"]
    settings = json.loads((tmp_path / "checkpoint/preprocessor_config.json").read_text())
    square = {"patch_size": 4, "merge_size": 2}
    bounds = {"min_pixels": 256, "max_pixels": 1920}
    assert steps["Resize"] == {"width": 8, "height": 8, "smart_resize": 1, **bounds, **square}
    assert steps["Normalize"] == {
        "mean": settings["image_mean"],
        "std": settings["image_std"],
        "qwen2_5_vl": 1,
    }
    assert steps["PatchImage"] == {**square, "temporal_patch_size": 2}
    assert steps["Rescale"] == {"rescale_factor": settings["rescale_factor"]}


def test_the_file_of_all_processors_counts_first(tmp_path):
    pictured_families.save(tmp_path / "checkpoint", "qwen2_5_vl")
    settings = json.loads((tmp_path / "checkpoint/preprocessor_config.json").read_text())
    together = {"image_processor": settings | {"size": {"shortest_edge": 64, "longest_edge": 640}}}
    (tmp_path / "checkpoint/processor_config.json").write_text(json.dumps(together))
    export(tmp_path / "checkpoint", tmp_path / "out")
    text = (tmp_path / "out" / genai_images.PROCESSOR).read_text()
    assert '"max_pixels": 640' in text


@pytest.mark.parametrize(
    "other",
    [
        {"do_rescale": False},
        {"do_normalize": False},
        {"do_resize": False},
        {"resample": 2},
        {"min_pixels": 10**5},
        {"image_processor_type": "CLIPImageProcessor"},
        {"image_processor_type": "NoImageProcessor"},
    ],
)
def test_what_its_steps_cannot_follow_has_none(other):
    usual = genai_images.image_processor(SETTINGS, "qwen2_vl")
    assert usual is not None
    assert genai_images.image_processor(SETTINGS | {"patch_size": None}, "qwen2_vl") == usual  # the default
    assert genai_images.image_processor(SETTINGS | other, "qwen2_vl") is None
    assert genai_images.image_processor(SETTINGS, "qwen3_vl") is None  # not tried there


def test_without_steps_there_are_no_settings(tmp_path):
    pictured_families.save(tmp_path / "checkpoint", "qwen2_5_vl")
    file = tmp_path / "checkpoint/preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"do_rescale": False}))
    export(tmp_path / "checkpoint", tmp_path / "out", only="hub")
    assert not (tmp_path / "out" / GENAI).exists()
    assert not (tmp_path / "out" / genai_images.PROCESSOR).exists()


@pytest.mark.parametrize("family", FAMILIES)
def test_vectors_of_images_take_the_places_of_their_tokens(family, checkpoint_of, exported):
    """Whole tensors of transformers: its embeddings, in which the vectors of two images replace some."""
    folder, original = exported(family), pictured_families.transformers.AutoModelForImageTextToText
    network = original.from_pretrained(checkpoint_of(family)).eval()
    grids = torch.tensor([[1, 6, 4], [1, 2, 8]])
    pixels = torch.randn(40, 96, generator=torch.Generator().manual_seed(0))
    ids = torch.tensor([[5, 307, *[310] * 6, 308, 7], [307, *[310] * 4, 308, 9, 9, 9, 309]])
    read: list[torch.Tensor] = []
    hook = network.model.language_model.register_forward_pre_hook(
        lambda _module, _inputs, named: read.append(named["inputs_embeds"]), with_kwargs=True
    )
    with torch.no_grad():
        types = (ids == 310).int()
        network(input_ids=ids, pixel_values=pixels, image_grid_thw=grids, mm_token_type_ids=types)
    hook.remove()
    model = json.loads((folder / GENAI).read_text())["model"]
    sessions = {part: onnxruntime.InferenceSession(folder / model[part]["filename"]) for part in PARTS}
    images = {"pixel_values": pixels.numpy(), "image_grid_thw": grids.numpy()}
    [features] = sessions["vision"].run(None, images)
    [embeds] = sessions["embedding"].run(None, {"input_ids": ids.numpy(), "image_features": features})
    np.testing.assert_allclose(embeds, read[0].numpy(), rtol=0, atol=1e-5)
    [untouched] = sessions["embedding"].run(None, {"input_ids": ids.numpy(), "image_features": features[:0]})
    embeddings = network.get_input_embeddings()(ids).detach().numpy()
    np.testing.assert_array_equal(untouched, embeddings)


@pytest.mark.parametrize("family", FAMILIES)
def test_they_are_proved(family, exported):
    folder = exported(family)
    report = verify(folder, cases="quick")
    assert report.ok, facts_line(report)
    results = graph_results(report)
    assert results[EMBEDDING] == results[roles.hub_path(roles.EMBED_TOKENS)]
    assert results.get(VISION) == ("equal, 1 cases" if family == "qwen2_vl" else None)


def later(graph: onnx.GraphProto) -> None:
    """The vector of each token of an image for the token before it."""
    through(graph, node(graph, "CumSum").output[0], "Add", 1)


def unread(graph: onnx.GraphProto) -> None:
    """No token has a vector of an image."""
    through(graph, node(graph, "CumSum").output[0], "Add", 1000)


@pytest.mark.parametrize("mutate", [later, unread])
def test_images_in_other_places_are_caught(mutate, exported):
    folder = exported("qwen2_5_vl")
    model = onnx.load(folder / EMBEDDING, load_external_data=False)
    mutate(model.graph)
    onnx.save(model, folder / EMBEDDING)
    for reference in ("twin", "transformers"):
        report = verify(folder, reference=reference, cases="quick", allow_edited=True)
        assert {case.name for case in report.failed} == {"three rows of images in chunks"}
        assert graph_results(report)[EMBEDDING].endswith("cases failed")


def test_another_graph_of_images_is_caught(exported):
    folder = exported("qwen2_vl")
    model = onnx.load(folder / VISION, load_external_data=False)
    through(model.graph, "pixel_values", "Mul", 1.01)
    onnx.save(model, folder / VISION)
    report = verify(folder, reference="twin", cases="quick", allow_edited=True)
    assert graph_results(report)[VISION].endswith("cases failed")
    assert graph_results(report)[roles.hub_path(roles.IMAGE_ENCODER)].startswith("equal, ")


def test_graphs_share_the_weights_of_the_others(exported):
    folder = exported("qwen2_vl")
    assert sorted(path.name for path in folder.rglob("*_data")) == [
        "decoder_model_merged.onnx_data",
        "embed_tokens.onnx_data",
        "vision_encoder.onnx_data",
    ]


def test_a_number_format_has_its_own_graphs_and_options(exported):
    folder = exported("qwen2_5_vl", dtype="int4")
    model = json.loads((folder / GENAI).read_text())["model"]
    for part in ("vision", "embedding", "decoder"):
        assert model[part]["filename"].endswith("_q4.onnx")
        assert (folder / model[part]["filename"]).is_file()
        assert model[part]["session_options"] == model["decoder"]["session_options"] != {}
    report = verify(folder, reference="twin", cases="quick")
    assert report.ok, facts_line(report)


@pytest.mark.parametrize("client", ["web", "openvino", "triton"])
def test_layouts_for_others_have_none(client, exported):
    folder = exported("qwen2_vl", client=client, only=None)
    manifest = bundle.read(folder)
    assert {roles.EMBEDDING, roles.GENAI_VISION}.isdisjoint(manifest.hub)
    assert not (folder / GENAI).exists()
    assert "onnxruntime-genai" not in (known_clients.running(manifest) or [])


def test_every_layout_that_has_them_names_the_client(exported):
    assert "onnxruntime-genai" in known_clients.running(bundle.read(exported("qwen2_vl")))
    single = exported("qwen2_5_vl", single_file=True)
    assert "onnxruntime-genai" in known_clients.running(bundle.read(single))
    native = exported("qwen2_vl", only="native")
    assert not (native / GENAI).exists()


@pytest.mark.parametrize(("family", "why"), [("gemma3", "do not tell tokens"), ("qwen3_vl", "do not tell")])
def test_what_needs_more_than_vectors_is_refused_by_name(family, why, exported):
    with pytest.raises(UnsupportedError, match=f"no graphs of {family} for other clients, which {why}"):
        exported(family)


@pytest.mark.parametrize("family", ["qwen2_vl", "mistral3", "lfm2_vl", "llava"])
def test_a_shared_buffer_is_for_texts_alone(family, exported):
    with pytest.raises(UnsupportedError, match="'genai' is for decoders only, not image-text-to-text; leave"):
        exported(family, client="genai")
