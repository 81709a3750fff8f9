"""Every endpoint except generation returns the model's results, and the pages and counters list all."""

import base64
import shutil
import wave

import httpx
import numpy as np
import openai
import pytest
import tiny_checkpoint
import tiny_tokenizers
import transformers
from helpers.row import Row
from helpers.serving import running
from helpers.speech import recordings, save_recogniser, write_wav
from PIL import Image

from txexport.exporter import export
from txexport.runtime.run_lengths import run_lengths
from txexport.server.served import Limits


def test_models_are_listed(client, folders):
    assert [one.id for one in client.models.list()] == list(folders)
    assert client.models.retrieve("encoder").task == "feature-extraction"
    methods = {one.id: one.methods for one in client.models.list()}
    assert methods == {
        "chatter": ["generate", "chat"],
        "encoder": ["embed"],
        "proofreader": ["classify", "zero_shot", "rerank"],
        **{name: ["generate"] for name in ("python-completer", "number-translator")},
    }


def test_embeddings_are_the_models(client, model_of):
    texts = ["A kitten sleeps.", "Rates rose."]
    expected = model_of("encoder").embed(texts)
    result = client.embeddings.create(model="encoder", input=texts)  # base64, as the client asks for
    np.testing.assert_allclose([one.embedding for one in result.data], expected, atol=1e-6)
    assert result.usage.prompt_tokens == sum(len(one) for one in model_of("encoder").text.encode(texts))
    short = client.embeddings.create(model="encoder", input=texts[0], dimensions=9, encoding_format="float")
    cut = expected[0, :9] / np.linalg.norm(expected[0, :9])
    np.testing.assert_allclose(short.data[0].embedding, cut, atol=1e-6)


def test_an_image_is_told_in_no_more_words_than_the_server_gives(tmp_path):
    picture = Image.fromarray(np.random.default_rng(5).integers(0, 256, (37, 53, 3), np.uint8))
    picture.save(tmp_path / "picture.png")
    folder = tmp_path / "checkpoint"
    tiny_checkpoint.save(folder, "vision-encoder-decoder", "VisionEncoderDecoderModel")
    tiny_tokenizers.byte_level().save_pretrained(folder)
    transformers.ViTImageProcessorPil(size={"height": 30, "width": 30}).save_pretrained(folder)
    export(folder, tmp_path / "bundle", only="native")
    limits = Limits(cache_tokens=64, max_new_tokens=5, max_waiting=8, max_body=2**20, timeout=60)
    with running({"teller": tmp_path / "bundle"}, limits) as (address, served):
        model, sent = served["teller"].model, base64.b64encode((tmp_path / "picture.png").read_bytes())
        for options in ({}, {"num_beams": 2}, {"max_new_tokens": 3}):
            asked = {"model": "teller", "images": sent.decode(), **options}
            told = httpx.post(f"{address}/v1/tasks/image_to_text", json=asked, timeout=60).json()
            expected = model.image_to_text(tmp_path / "picture.png", **{"max_new_tokens": 5} | options)
            assert (
                told
                == expected
                != model.image_to_text(tmp_path / "picture.png", **options | {"max_new_tokens": 9})
            )


def test_masks_are_lengths_of_runs(tmp_path):
    """As `run_lengths` gives them; prompts are objects."""
    picture = Image.fromarray(np.random.default_rng(5).integers(0, 256, (37, 53, 3), np.uint8))
    picture.save(tmp_path / "picture.png")
    tiny_checkpoint.save(tmp_path / "sam", "sam", "SamModel")
    sides = {"height": 60, "width": 60}
    processor = transformers.SamImageProcessorPil(size={"longest_edge": 60}, pad_size=sides)
    processor.save_pretrained(tmp_path / "sam")
    tiny_checkpoint.save(tmp_path / "segformer", "segformer", "SegformerForSemanticSegmentation")
    processor = transformers.SegformerImageProcessorPil(size={"height": 32, "width": 32})
    processor.save_pretrained(tmp_path / "segformer")
    tiny_checkpoint.save(tmp_path / "maskformer", "maskformer")
    sizes = {"shortest_edge": 32, "longest_edge": 64}
    transformers.MaskFormerImageProcessorPil(size=sizes).save_pretrained(tmp_path / "maskformer")
    folders = {name: tmp_path / "bundles" / name for name in ("sam", "segformer", "maskformer")}
    for name, folder in folders.items():
        export(tmp_path / name, folder, only="native")
    limits = Limits(cache_tokens=64, max_new_tokens=5, max_waiting=8, max_body=2**20, timeout=60)
    with running(folders, limits) as (address, served):
        image = base64.b64encode((tmp_path / "picture.png").read_bytes()).decode()
        prompt = {"points": [[5, 6]], "box": [1, 2, 30, 31]}
        body = {"model": "sam", "images": image, "prompts": prompt}
        for extra in ({}, {"several_masks": False}):
            answer = httpx.post(f"{address}/v1/tasks/masks", json=body | extra, timeout=60).json()
            expected = served["sam"].model.masks(tmp_path / "picture.png", prompt, **extra)
            assert answer == [one | {"mask": run_lengths(one["mask"])} for one in expected]
        first = httpx.post(f"{address}/v1/tasks/masks", json=body | {"with_logits": True}, timeout=60).json()
        again = prompt | {"mask": first[0]["logits"]}
        answer = httpx.post(f"{address}/v1/tasks/masks", json=body | {"prompts": again}, timeout=60).json()
        expected = served["sam"].model.masks(tmp_path / "picture.png", again)
        assert [one["score"] for one in answer] == [one["score"] for one in expected]
        assert answer[0]["score"] != first[0]["score"]
        refused = httpx.post(f"{address}/v1/tasks/masks", json=body | {"prompts": {"point": []}}, timeout=60)
        assert refused.status_code == 400
        assert "expected a dict with points, labels, box" in refused.json()["error"]["message"]
        body = {"model": "segformer", "images": [image, image]}
        answer = httpx.post(f"{address}/v1/tasks/segment", json=body, timeout=60).json()
        expected = served["segformer"].model.segment(tmp_path / "picture.png")
        assert answer == [[one | {"mask": run_lengths(one["mask"])} for one in expected]] * 2
        chosen = {"kind": "instance", "threshold": 0.0}
        body = {"model": "maskformer", "images": image, **chosen}
        answer = httpx.post(f"{address}/v1/tasks/segment", json=body, timeout=60).json()
        expected = served["maskformer"].model.segment(tmp_path / "picture.png", **chosen)
        assert answer == [one | {"mask": run_lengths(one["mask"])} for one in expected] != []
        refused = httpx.post(f"{address}/v1/tasks/segment", json=body | {"kind": "objects"}, timeout=60)
        assert refused.status_code == 400


def test_segments_of_the_texts_of_a_request(tmp_path):
    """Every image has a part for each text; requests with the same texts are read together."""
    picture = Image.fromarray(np.random.default_rng(5).integers(0, 256, (37, 53, 3), np.uint8))
    picture.save(tmp_path / "picture.png")
    tokenizer = tiny_tokenizers.clip()
    text = {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id}
    tiny_checkpoint.save(tmp_path / "in", "clipseg", text_config=text)
    tokenizer.save_pretrained(tmp_path / "in")
    transformers.ViTImageProcessorPil(size={"height": 36, "width": 36}).save_pretrained(tmp_path / "in")
    export(tmp_path / "in", tmp_path / "out", only="native")
    limits = Limits(cache_tokens=64, max_new_tokens=5, max_waiting=8, max_body=2**20, timeout=60)
    with running({"clipseg": tmp_path / "out"}, limits) as (address, served):
        image = base64.b64encode((tmp_path / "picture.png").read_bytes()).decode()
        chosen = {"texts": ["a cat", "Anna"], "mask_threshold": 0.4}
        body = {"model": "clipseg", "images": [image, image], **chosen}
        answer = httpx.post(f"{address}/v1/tasks/segment", json=body, timeout=60).json()
        expected = served["clipseg"].model.segment(tmp_path / "picture.png", **chosen)
        assert answer == [[one | {"mask": run_lengths(one["mask"])} for one in expected]] * 2
        refused = httpx.post(f"{address}/v1/tasks/segment", json=body | {"texts": []}, timeout=60)
        assert refused.status_code == 400
        assert "segments by texts" in refused.json()["error"]["message"]


def test_poses_of_the_boxes_of_a_request(tmp_path):
    """Requests with boxes of their own are not read together."""
    picture = Image.fromarray(np.random.default_rng(5).integers(0, 256, (37, 53, 3), np.uint8))
    picture.save(tmp_path / "picture.png")
    tiny_checkpoint.save(tmp_path / "in", "vitpose")
    transformers.VitPoseImageProcessorPil(size={"height": 48, "width": 36}).save_pretrained(tmp_path / "in")
    export(tmp_path / "in", tmp_path / "out", only="native")
    limits = Limits(cache_tokens=64, max_new_tokens=5, max_waiting=8, max_body=2**20, timeout=60)
    with running({"vitpose": tmp_path / "out"}, limits) as (address, served):
        image = base64.b64encode((tmp_path / "picture.png").read_bytes()).decode()
        body, model = {"model": "vitpose", "images": image}, served["vitpose"].model
        boxes = [[1, 2, 30, 31], [0, 0, 9, 9]]
        for extra in ({}, {"boxes": boxes}, {"boxes": boxes[:1], "threshold": 0.1}):
            answer = httpx.post(f"{address}/v1/tasks/pose", json=body | extra, timeout=60).json()
            assert answer == model.pose(tmp_path / "picture.png", **extra)
        several = body | {"images": [image, image], "boxes": [boxes, boxes[:1]]}
        answer = httpx.post(f"{address}/v1/tasks/pose", json=several, timeout=60).json()
        assert answer == model.pose([tmp_path / "picture.png"] * 2, [boxes, boxes[:1]])
        refused = httpx.post(f"{address}/v1/tasks/pose", json=body | {"boxes": [[1, 2]]}, timeout=60)
        assert refused.status_code == 400


def test_texts_are_found_in_images_and_sounds(tmp_path):
    images, size = {"height": 30, "width": 30}, len(tiny_tokenizers.clip())
    tiny_checkpoint.save(tmp_path / "owl", "owlv2", text_config={"vocab_size": size})
    tiny_tokenizers.clip().save_pretrained(tmp_path / "owl")
    transformers.Owlv2ImageProcessorPil(size=images).save_pretrained(tmp_path / "owl")
    tiny_checkpoint.save(tmp_path / "clap", "clap")
    transformers.ClapFeatureExtractor(**tiny_checkpoint.CLAP_SOUNDS).save_pretrained(tmp_path / "clap")
    folders = {name: tmp_path / "bundles" / name for name in ("owl", "clap")}
    for name, folder in folders.items():
        export(tmp_path / name, folder, only="native")
    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    write_wav(tmp_path / "sound.wav", np.sin(np.arange(5000) / 9).astype(np.float32), 8000)
    limits = Limits(cache_tokens=64, max_new_tokens=5, max_waiting=8, max_body=2**20, timeout=60)
    texts = ["a cat", "the mat"]
    with running(folders, limits) as (address, served):
        sent = base64.b64encode((tmp_path / "picture.png").read_bytes()).decode()
        body = {"model": "owl", "images": sent, "texts": texts, "threshold": 0.45}
        answer = httpx.post(f"{address}/v1/tasks/find", json=body, timeout=60).json()
        assert answer == served["owl"].model.find(tmp_path / "picture.png", texts, threshold=0.45) != []
        sent = base64.b64encode((tmp_path / "sound.wav").read_bytes()).decode()
        body = {"model": "clap", "sounds": [sent], "texts": texts, "template": "a {}"}
        answer = httpx.post(f"{address}/v1/tasks/match_audio", json=body, timeout=60).json()
        assert answer == served["clap"].model.match_audio([tmp_path / "sound.wav"], texts, template="a {}")


def test_a_sound_is_written_down(checkpoint_of, tmp_path):
    """From the uploaded file, never from a server's file of that name."""
    row = Row("whisper", "WhisperForConditionalGeneration", "automatic-speech-recognition", "served",
              {"max_source_positions": 50})  # fmt: skip
    shutil.copytree(checkpoint_of(row), tmp_path / "checkpoint")
    transformers.WhisperFeatureExtractor(feature_size=11, chunk_length=1).save_pretrained(
        tmp_path / "checkpoint"
    )
    export(tmp_path / "checkpoint", tmp_path / "speech")
    samples = (np.sin(np.arange(9000) / 7) * 16_000).astype("<i2")
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    limits = Limits(cache_tokens=4096, max_new_tokens=50, max_waiting=9, max_body=10**6, timeout=60)
    with running({"speech": tmp_path / "speech"}, limits) as (address, served):
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0)
        expected = served["speech"].model.transcribe(str(tmp_path / "sound.wav"))
        sound = (tmp_path / "sound.wav").read_bytes()
        told = client.audio.transcriptions.create(model="speech", file=("/etc/passwd", sound))
        assert told.text == expected
        assert expected
        for wrong in (b"", b"RIFF", sound[:99]):
            with pytest.raises(openai.BadRequestError, match="sound"):
                client.audio.transcriptions.create(model="speech", file=("a.wav", wrong))
        refused = httpx.post(
            f"{address}/v1/audio/transcriptions", content=b"x", headers={"content-type": "a/b"}
        )
        assert refused.status_code == 400


def test_a_ctc_model_is_served_too(tmp_path):
    save_recogniser(tmp_path / "checkpoint")
    export(tmp_path / "checkpoint", tmp_path / "ctc", only="native")
    limits = Limits(cache_tokens=4096, max_new_tokens=50, max_waiting=9, max_body=10**6, timeout=60)
    with running({"ctc": tmp_path / "ctc"}, limits) as (address, served):
        transcriptions = openai.OpenAI(
            base_url=f"{address}/v1", api_key="any", max_retries=0
        ).audio.transcriptions
        texts = []
        for number, sound in enumerate(recordings()[2:4]):
            path = tmp_path / f"{number}.wav"
            with wave.open(str(path), "wb") as file:
                file.setparams((1, 2, 16_000, 0, "NONE", ""))
                file.writeframes((sound * 2**14).astype("<i2").tobytes())
            answer = transcriptions.create(model="ctc", file=path)
            assert answer.text == served["ctc"].model.transcribe(path)
            texts.append(transcriptions.create(model="ctc", file=path, response_format="text"))
            assert texts[-1].strip() == answer.text
        assert len({*texts}) == 2
        for options, message in (({"file": b"RIFF"}, "sound"), ({"language": "en"}, "language is an option")):
            with pytest.raises(openai.BadRequestError, match=message):
                transcriptions.create(**{"model": "ctc", "file": path} | options)


def test_every_method_is_served_by_its_arguments(server, model_of):
    address, _ = server
    model = model_of("proofreader")
    asked = {"model": "proofreader", "texts": ["It is used.", ["It be", "used is."]], "top_k": 1}
    answer = httpx.post(f"{address}/v1/tasks/classify", json=asked).json()
    expected = model.classify(["It is used.", ("It be", "used is.")], top_k=1)
    assert [one[0]["label"] for one in answer] == [one[0]["label"] for one in expected]
    assert answer[0][0]["score"] == pytest.approx(expected[0][0]["score"], abs=1e-6)
    refused = httpx.post(f"{address}/v1/tasks/classify", json=asked | {"top": 1})
    assert refused.status_code == 400
    assert 'no field "top"; did you mean top_k?' in refused.json()["error"]["message"]


def test_pages_name_all_that_is_served(server):
    address, _ = server
    listed = httpx.get(f"{address}/openapi.json").json()["paths"]
    assert {"/v1/embeddings", "/v1/tasks/tag", "/v1/audio/transcriptions"} <= listed.keys()
    body = listed["/v1/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["model", "prompt"]
    assert body["properties"]["n"] == {"type": "integer", "minimum": 1, "maximum": 16,
                                       "description": "Answers to each prompt."}  # fmt: skip
    page = httpx.get(f"{address}/docs").text
    assert all(f"POST {path}" in page for path in listed if "post" in listed[path])
    assert "http" not in page.replace("httpx", "")  # nothing is loaded from elsewhere


def test_metrics_count_requests_and_tokens(client, server):
    address, _ = server

    def read():
        lines = httpx.get(f"{address}/metrics").text.splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    before = read()
    client.completions.create(model="python-completer", prompt="x", max_tokens=5)
    after = read()
    made, done = 'txexport_tokens_total{kind="completion"}', 'endpoint="completions",status="200"'
    assert float(after[made]) - float(before.get(made, 0)) == 5
    name = f"txexport_requests_total{{{done}}}"
    assert float(after[name]) - float(before.get(name, 0)) == 1
    assert after['txexport_running_texts{model="chatter"}'] == "0.0"
