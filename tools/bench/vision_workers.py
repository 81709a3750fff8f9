"""Runtimes on models of images, for `workers.py`: each converts a checkpoint and returns a function of cases.

A case is a batch of noise: the time is the model's alone, without reading and resizing images. An answer is
the place of the largest number of each row in the model's first output.
"""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

Case = dict
Run = Callable[[Case], list[int]]
FLOAT32 = "float32"
# Model type -> the task by optimum's name.
TASKS = {
    "segformer": "semantic-segmentation",
    "detr": "object-detection",
    "rt_detr_v2": "object-detection",
    "sam": "feature-extraction",
    "yolos": "object-detection",
    "depth_anything": "depth-estimation",
    "swin": "image-classification",
}


def pixels(case: Case) -> np.ndarray:
    """The images of a case (B,3,H,W), the same for every runtime."""
    shape = case["batch"], 3, case["source"], case["wide"]
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def prompted(case: Case) -> dict[str, np.ndarray]:
    """The inputs of SAM's decoder: an encoded image (B,256,H,W), its positions, and a point in each image."""
    shape = case["batch"], 256, case["source"], case["wide"]
    image, positions = np.random.default_rng(0).standard_normal((2, *shape)).astype(np.float32)
    return {
        "image_embeddings": image,
        "image_positional_embeddings": positions,
        "input_points": np.full((case["batch"], 1, 1, 2), 500.0, np.float32),
        "input_labels": np.ones((case["batch"], 1, 1), np.int64),
    }


def largest(output: np.ndarray) -> list[int]:
    """The place of the largest number of each row."""
    return output.reshape(len(output), -1).argmax(axis=1).tolist()


def txexport(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """A bundle, on ONNX Runtime."""
    import txexport

    if not folder.exists():
        txexport.export(checkpoint, folder, dtype=dtype, only="native")
    return _as_bundle(txexport.load(folder, device="cpu", threads=threads, dtype=dtype))


def txexport_openvino(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """The same bundle, on OpenVINO."""
    import txexport

    if not folder.exists():
        txexport.export(checkpoint, folder)
    return _as_bundle(txexport.load(folder, engine="openvino", precision=dtype, threads=threads))


def _as_bundle(model) -> Run:
    """Cases for a bundle, on any engine; a mask of one place says that nothing is padding."""
    sessions = model.bundle.sessions
    if "prompt_encoder_mask_decoder" in sessions:
        return partial(_as_sam, sessions)
    masked = "pixel_mask" in sessions["model"].inputs

    def run(case: Case) -> list[int]:
        images = pixels(case)
        mask = {"pixel_mask": np.ones((len(images), 1, 1), np.int64)} if masked else {}
        return largest(next(iter(model.run(pixel_values=images, **mask).values())))

    return run


def _as_sam(sessions, case: Case) -> list[int]:
    """SAM's encoder, or its decoder."""
    if case["kind"] == "prompts":
        decoder, inputs = sessions["prompt_encoder_mask_decoder"], prompted(case)
        if "input_masks" in decoder.inputs:  # none is a prompt
            sides = [4 * case["source"], 4 * case["wide"]]
            inputs["input_masks"] = np.zeros((case["batch"], 1, *sides), np.float32)
            inputs["has_input_masks"] = np.zeros((case["batch"], 1), np.int64)
        return largest(decoder.run(inputs)["pred_masks"])
    return largest(sessions["vision_encoder"].run({"pixel_values": pixels(case)})["image_embeddings"])


def _original(checkpoint: Path):
    from txexport.checkpoints import transformers_loading

    [architecture] = json.loads((checkpoint / "config.json").read_text())["architectures"]
    return transformers_loading.model_from_pretrained(architecture, checkpoint).eval()


def transformers(checkpoint: Path, folder: Path, threads: int) -> Run:
    """PyTorch with transformers."""
    import torch

    torch.set_num_threads(threads)
    model = _original(checkpoint)

    @torch.inference_mode()
    def run(case: Case) -> list[int]:
        if case["kind"] == "prompts":
            inputs = {name: torch.from_numpy(array) for name, array in prompted(case).items()}
            return largest(model(**inputs).pred_masks.numpy())
        images = torch.from_numpy(pixels(case))
        if case["kind"] == "pixels-1024":
            return largest(model.get_image_embeddings(images).numpy())
        return largest(model(pixel_values=images)[0].numpy())

    return run


def exporter(checkpoint: Path, folder: Path, threads: int) -> Run:
    """The graph of transformers' own exporter, fused for ONNX Runtime."""
    import torch
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    if not folder.exists():
        sample = {"pixel_values": torch.randn(2, 3, 224, 224)}
        exported = OnnxExporter().export(
            _original(checkpoint), sample, config=OnnxConfig(dynamic=True, ort_fusions="cpu")
        )
        exported.save_pretrained(folder)
    return _as_session(folder, threads)


def optimum(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """optimum-onnx: its own export, on ONNX Runtime."""
    from optimum.exporters.onnx import main_export

    if not folder.exists():
        model_type = json.loads((checkpoint / "config.json").read_text())["model_type"]
        main_export(str(checkpoint), folder, task=TASKS[model_type], do_validation=False)
    return _as_session(folder, threads)


def _as_session(folder: Path, threads: int) -> Run:
    """Cases for the only graph in a folder."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    [path] = folder.glob("*.onnx")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    first, mask = (
        session.get_outputs()[0].name,
        {port.name for port in session.get_inputs()} - {"pixel_values"},
    )

    def run(case: Case) -> list[int]:
        images = pixels(case)
        masks = dict.fromkeys(mask, np.ones((len(images), *images.shape[2:]), np.int64))
        return largest(session.run([first], {"pixel_values": images} | masks)[0])

    return run


def openvino(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """OpenVINO's own conversion of the PyTorch model."""
    import openvino as library
    import torch
    import transformers as originals

    [architecture] = json.loads((checkpoint / "config.json").read_text())["architectures"]
    if not folder.exists():
        model = getattr(originals, architecture).from_pretrained(checkpoint).eval()
        model.config.return_dict = False
        sample = {"pixel_values": torch.randn(2, 3, 224, 224)}
        converted = library.convert_model(model, example_input=sample)
        os.makedirs(folder)
        library.save_model(converted, folder / "model.xml", compress_to_fp16=False)
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": str(threads)}
    compiled = library.Core().compile_model(folder / "model.xml", "CPU", settings)
    return lambda case: largest(compiled([pixels(case)])[0])


ALL = (txexport, txexport_openvino, transformers, exporter, optimum, openvino)
RUNTIMES = {run.__name__: run for run in ALL}
