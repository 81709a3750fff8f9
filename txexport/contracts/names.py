"""Names of graphs' inputs, outputs and symbolic dimensions: the ecosystem's, where it has one.

B rows, S tokens, P past tokens, E tokens of an encoder, L positions asked for; T texts, I images.
"""

# Inputs of token ids and of what is known of each token
INPUT_IDS = "input_ids"  # (B,S)
ATTENTION_MASK = "attention_mask"  # (B,S), over a growing cache (B,P+S): 1 for a token, 0 for padding
TOKEN_TYPE_IDS = "token_type_ids"  # (B,S)
GLOBAL_ATTENTION_MASK = "global_attention_mask"  # (B,S): 1 for a token that every token sees
POSITION_IDS = "position_ids"  # (B,S)
INPUTS_EMBEDS = "inputs_embeds"  # (B,S,W): vectors in place of token ids

# Inputs of a decoder alone
CACHE_LENGTHS = "cache_lengths"  # (B): how many slots of a static cache each row has filled
LOGITS_INDICES = "logits_indices"  # (B,L): the new tokens whose logits are asked for
ENCODER_HIDDEN_STATES = "encoder_hidden_states"  # (B,E,W)
ENCODER_ATTENTION_MASK = "encoder_attention_mask"  # (B,E)
USE_CACHE_BRANCH = "use_cache_branch"  # (1): whether there is a past

# Inputs of signals
PIXEL_VALUES = "pixel_values"  # (B,channels,height,width)
INPUT_FEATURES = "input_features"  # (B,bands,frames)
INPUT_VALUES = "input_values"  # (B,frames,bands), or a waveform (B,samples)

# Outputs
LAST_HIDDEN_STATE = "last_hidden_state"  # (B,S,W)
POOLER_OUTPUT = "pooler_output"  # (B,W)
LOGITS = "logits"
START_LOGITS = "start_logits"  # (B,S)
END_LOGITS = "end_logits"  # (B,S)
PREDICTION_LOGITS = "prediction_logits"  # (B,S,V), where a pair is scored beside the masks
SEQ_RELATIONSHIP_LOGITS = "seq_relationship_logits"  # (B,2)
CLS_LOGITS = "cls_logits"  # (B,labels)
DISTILLATION_LOGITS = "distillation_logits"  # (B,labels)
TEXT_EMBEDS = "text_embeds"  # (T,W)
IMAGE_EMBEDS = "image_embeds"  # (I,W)
LOGITS_PER_TEXT = "logits_per_text"  # (T,I)
LOGITS_PER_IMAGE = "logits_per_image"  # (I,T)

# Outputs beside those of a task, one for every layer, by `of_layer`
HIDDEN_STATES = "hidden_states"  # (B,S,W): what the first layer reads, and then what each layer gives
ATTENTIONS = "attentions"  # (B,N,S,T): how much of each key a query takes, which is 1 in all
CROSS_ATTENTIONS = "cross_attentions"  # (B,N,S,E): the same of an encoder's tokens
ENCODER, DECODER, TEXT, VISION = "encoder", "decoder", "text", "vision"  # the stacks, where there are two

# Dimensions
BATCH_SIZE = "batch_size"
SEQUENCE_LENGTH = "sequence_length"
ENCODER_SEQUENCE_LENGTH = "encoder_sequence_length"
PAST_ENCODER_SEQUENCE_LENGTH = "past_encoder_sequence_length"  # that, or 0 before the first step
PAST_SEQUENCE_LENGTH = "past_sequence_length"
TOTAL_SEQUENCE_LENGTH = "total_sequence_length"
CAPACITY = "capacity"
LOGITS_LENGTH = "logits_length"
NUM_HEADS, HEAD_DIM = "num_heads", "head_dim"  # where a graph takes any
NUM_CHOICES = "num_choices"
HEIGHT, WIDTH = "height", "width"
NUM_SAMPLES = "num_samples"
TEXT_BATCH_SIZE = "text_batch_size"
IMAGE_BATCH_SIZE = "image_batch_size"


def of_layer(kind: str, layer: int, stack: str | None = None) -> str:
    """The output of a layer, as transformers' outputs and transformers.js call it: decoder_attentions.0."""
    return f"{kind}.{layer}" if stack is None else f"{stack}_{kind}.{layer}"
