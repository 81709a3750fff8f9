"""GGUF files: a model in one file, as llama.cpp writes and runs it.

`container` reads the file's header, `tensor_types` its packed numbers. The other modules translate
llama.cpp's terms to those of a checkpoint folder: `config` to config.json, `tensors` to the names, orders and
shapes of transformers, `tokenizer` to tokenizer.json. No other code uses llama.cpp's terms. Source:
ggml-org/ggml, docs/gguf.md; the layouts of blocks are those of ggml-common.h.
"""
