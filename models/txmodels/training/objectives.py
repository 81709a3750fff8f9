"""Training losses of Transformers, each a mean over the tokens or rows that count.

A position whose label is IGNORED does not count. B batch, S tokens, V vocabulary.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

IGNORED = -100  # ignore_index of PyTorch's cross_entropy


def token_loss(logits: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of logits (B,S,V) with labels (B,S): masked tokens, tags or targets of a decoder.

    `label_smoothing` spreads that fraction of the probability over the vocabulary (Vaswani et al. 2017, 5.4).
    """
    return cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=label_smoothing)


def causal_loss(logits: Tensor, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
    """Next-token loss (Radford et al. 2018, 3.1): logits (B,S,V), the rest (B,S)."""
    labels = input_ids[:, 1:]
    if attention_mask is not None:
        labels = labels.masked_fill(attention_mask[:, 1:] == 0, IGNORED)
    return token_loss(logits[:, :-1], labels)


def pretraining_loss(
    prediction_logits: Tensor, labels: Tensor, seq_relationship_logits: Tensor, pairs: Tensor
) -> Tensor:
    """BERT's two losses, added (Devlin et al. 2019, A.2): masked tokens and next-sentence prediction.

    prediction_logits (B,S,V), labels (B,S); seq_relationship_logits (B,2), pairs (B): 0 where the second
    sentence follows the first, 1 where it does not.
    """
    return token_loss(prediction_logits, labels) + cross_entropy(seq_relationship_logits, pairs)


def classification_loss(
    logits: Tensor, labels: Tensor, language_loss: Tensor | None = None, weight: float = 0.5
) -> Tensor:
    """Cross-entropy of logits (B,labels) with labels (B).

    `language_loss` is the auxiliary objective of Radford et al. 2018 (3.2), times `weight`.
    """
    loss = cross_entropy(logits, labels)
    return loss if language_loss is None else loss + weight * language_loss


def span_loss(start_logits: Tensor, end_logits: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Loss of an answer's start and end (Devlin et al. 2019, 4.2), averaged as in their released code.

    Logits (B,S), positions (B); a position outside the sequence is ignored.
    """
    beyond = start_logits.shape[1]
    losses = [
        cross_entropy(logits, places.where((places >= 0) & (places < beyond), IGNORED))
        for logits, places in ((start_logits, starts), (end_logits, ends))
    ]
    return torch.stack(losses).mean()


def shift_right(labels: Tensor, start_id: int, pad_id: int) -> Tensor:
    """Decoder inputs for labels (B,S): `start_id`, then the labels without the last."""
    read = labels.new_full(labels.shape, start_id)
    read[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, pad_id)
    return read
