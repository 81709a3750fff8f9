"""The names that other tools give a graph's inputs and outputs, in the names of the contract.

optimum, transformers.js and onnxruntime-genai's builder write the contract's own names. transformers'
exporters write those of the library's objects (`input.cache.self_attention_cache.layers.0.keys`), mobius
`past_key_values.0.self.key`, and onnxruntime's own tools `past_key_self_0`.
"""

import re

from txexport.contracts import cache_names, names

CACHE = re.compile(
    r"(?:past_key_values|past_key_value|past|present_key_values|present|cache)\."
    r"(?:(?P<cache>self_attention_cache|cross_attention_cache)\.)?"
    r"(?:layers\.)?(?P<layer>\d+)\."
    r"(?:(?P<part>self|cross|decoder|encoder)\.)?"
    r"(?P<what>key|value)s?"
)
OLD_CACHE = re.compile(r"(?:past|present)_(?P<what>key|value)_(?P<part>self|cross)_(?P<layer>\d+)")
PREFIXES = ("input.", "output.")  # of names that an input and an output of transformers' graphs share
PARTS = {
    "self_attention_cache": cache_names.DECODER,
    "cross_attention_cache": cache_names.ENCODER,
    "self": cache_names.DECODER,
    "cross": cache_names.ENCODER,
    "decoder": cache_names.DECODER,
    "encoder": cache_names.ENCODER,
}
OF_ENCODER = {"audio_features": names.INPUT_FEATURES}  # of onnxruntime-genai's Whisper
OF_DECODER = {
    "encoder_outputs.last_hidden_state": names.ENCODER_HIDDEN_STATES,
    "decoder_input_ids": names.INPUT_IDS,
}


def standard(name: str, kind: str, *, of_decoder: bool) -> str:
    """The contract's name of an input or output; `kind` is cache_names.PAST or PRESENT.

    In a decoder over an encoder, `decoder_input_ids` are its `input_ids`.
    """
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    match = CACHE.fullmatch(name) or OLD_CACHE.fullmatch(name)
    if match is not None:
        groups = match.groupdict()
        part = PARTS.get(groups.get("cache") or groups["part"] or "")
        return cache_names.pair(kind, groups["layer"], part)[groups["what"] == "value"]
    return (OF_DECODER if of_decoder else OF_ENCODER).get(name, name)
