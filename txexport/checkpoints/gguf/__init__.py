"""GGUF files: a whole model in one file, as llama.cpp writes and runs it.

`container` reads the file's header, `tensor_types` its packed numbers. The rest says in the terms of a
checkpoint folder what llama.cpp says in its own: `config` is config.json, `tensors` the names, orders and
shapes that transformers gives, `tokenizer` tokenizer.json. Nobody else knows of llama.cpp's terms.

Source: ggml-org/ggml, docs/gguf.md; the layouts of blocks are those of ggml-common.h.
"""
