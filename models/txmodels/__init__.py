"""Transformer components in PyTorch. Each file has its onnxscript twin of the same name in txgraphs.

Shapes, one letter each: B batch, S new tokens, P past, C capacity, T keys, E encoder tokens, W width,
N query heads, K key/value heads, H head size, F feed-forward width, V vocabulary, L positions asked for.
"""
