"""Right exports: of every checkpoint, and rewritten in ways that a checker may take for faults."""

from export_bench import rewrites
from export_bench.edits import of
from export_bench.entry import Entry
from export_bench.sources import SOURCES

PLAIN = tuple(Entry(name, name, "As exported.") for name in SOURCES)
REWRITTEN = (
    Entry("bert-opset-17", "bert", "In opset 17, without Gelu.", options={"opset": 17}),
    Entry(
        "llama-opset-24", "llama", "In opset 24, with Attention and RMSNormalization.", options={"opset": 24}
    ),
    Entry("bert-pooled", "bert", "With pooler_output as a second output.", options={"pooled": True}),
    Entry(
        "bert-renamed", "bert", "All values, nodes and weights have other names.", graph=of(rewrites.renamed)
    ),
    Entry(
        "gpt2-reordered", "gpt2", "Nodes and weights stand in another order.", graph=of(rewrites.reordered)
    ),
    Entry(
        "roberta-constants", "roberta", "Small weights are Constant nodes.", graph=of(rewrites.as_constants)
    ),
    Entry(
        "mistral-external",
        "mistral",
        "Weights stand in model.onnx_data.",
        options={"external": True},
    ),
    Entry(
        "bert-optimised",
        "bert",
        "Constants folded and nodes merged by onnxruntime's basic level.",
        graph=of(rewrites.optimised("basic")),
    ),
    Entry(
        "distilbert-fused",
        "distilbert",
        "Operators fused by onnxruntime's extended level, which round differently.",
        graph=of(rewrites.optimised("extended")),
    ),
    Entry(
        "llama-other-order-of-sums",
        "llama",
        "The inner dimensions of feed-forward networks stand in reverse: another order of each sum.",
        graph=of(rewrites.split_sums),
    ),
    Entry(
        "gpt2-gemm",
        "gpt2",
        "Products are over transposed weights, with a Transpose before each.",
        graph=of(rewrites.transposed_weights),
    ),
    Entry(
        "qwen2-double",
        "qwen2",
        "The output product is computed in float64.",
        graph=of(rewrites.double_products),
    ),
    Entry("bert-labels-by-torch", "bert-labels", "Exported by torch.onnx.export.", options={"torch": True}),
    Entry("roberta-by-torch", "roberta", "Exported by torch.onnx.export.", options={"torch": True}),
    Entry("distilbert-by-torch", "distilbert", "Exported by torch.onnx.export.", options={"torch": True}),
    Entry("t5-merged", "t5", "With the merged decoder too.", keep=("decoder_model_merged.onnx",)),
    Entry("whisper-merged", "whisper", "With the merged decoder too.", keep=("decoder_model_merged.onnx",)),
    Entry(
        "vit-inputs-scaled",
        "vit",
        "The input is halved and the first convolution doubled: the same numbers, exactly.",
        graph=of(rewrites.halved_pixels),
    ),
    Entry(
        "albert-mask-as-product",
        "albert",
        "Masked scores are -1e9, not minus infinity: the same weights where a row has a real token.",
        graph=of(rewrites.large_negative_mask),
    ),
)
ROWS = (*PLAIN, *REWRITTEN)
