"""Names of graphs' inputs, outputs and symbolic dimensions: the ecosystem's, if it has one.

B rows, S tokens, P past tokens, E tokens of an encoder, L scored positions; T texts, I images or sounds.
"""

from collections.abc import Container

# Inputs: token ids, masks and other numbers of each token
INPUT_IDS = "input_ids"  # (B,S)
ATTENTION_MASK = "attention_mask"  # (B,S), over a growing cache (B,P+S): 1 for a token, 0 for padding
TOKEN_TYPE_IDS = "token_type_ids"  # (B,S)
GLOBAL_ATTENTION_MASK = "global_attention_mask"  # (B,S): 1 for a token with global attention
BBOX = "bbox"  # (B,S,4): left, top, right and bottom of a token's word, 1,000 being a page's width or height
POSITION_IDS = "position_ids"  # (B,S), or (3,B,S) where a token has a frame, a row and a column
INPUTS_EMBEDS = "inputs_embeds"  # (B,S,W): vectors in place of token ids

# Inputs that only a decoder has
CACHE_LENGTHS = "cache_lengths"  # (B): filled slots of a static cache
PREFIX_LENGTHS = "prefix_lengths"  # (B): the first tokens of a row, which attend to each other
NEW_LENGTHS = "new_lengths"  # (B): tokens among the new ones of each row, which padding on the right follows
LOGITS_INDICES = "logits_indices"  # (B,L): the new tokens whose logits are computed
IMAGE_SPANS = "image_spans"  # (B,I,3): the tokens that attend to an image, from and up to, and its tiles
ENCODER_HIDDEN_STATES = "encoder_hidden_states"  # (B,E,W)
ENCODER_ATTENTION_MASK = "encoder_attention_mask"  # (B,E)
USE_CACHE_BRANCH = "use_cache_branch"  # (1): whether there is a past

# Inputs of signals
PIXEL_VALUES = "pixel_values"  # (B,channels,height,width), or patches (N,numbers) of all images
PIXEL_ATTENTION_MASK = "pixel_attention_mask"  # (B,P): 1 for a patch, 0 for padding; of tiles (B,I,H,W)
SPATIAL_SHAPES = "spatial_shapes"  # (B,2): rows and columns of an image's patches
IMAGE_GRIDS = "image_grid_thw"  # (I,3): frames, rows and columns of the patches of each image
GRIDS = "grid_thw"  # the same, as Qwen2-VL's graph calls it
TILE_GRID = "tile_grid"  # (1,6): rows and columns of tiles, of their vectors without padding, and reduced
ASPECT_RATIO_IDS = "aspect_ratio_ids"  # (I): the number of an image's rows and columns of tiles, from 1
ASPECT_RATIO_MASK = "aspect_ratio_mask"  # (I,T): 1 for a tile, 0 for padding
IMAGE_SIZES = "image_sizes"  # (I,2): height and width of images in pixels, which originals read
PIXEL_MASK = "pixel_mask"  # (B,height,width) of any size: 1 for a pixel of the image, 0 for padding
FLATTENED_PATCHES = "flattened_patches"  # (B,patches,2+numbers): row, column, then the patch
INPUT_FEATURES = "input_features"  # (B,bands,frames), (B,frames,bands) with a mask, or (B,1,frames,bands)
FEATURE_ATTENTION_MASK = "feature_attention_mask"  # (B,frames): 1 for a frame, 0 for padding
INPUT_VALUES = "input_values"  # (B,frames,bands), or a waveform (B,samples)

# Prompts of masks, and the places of an image that they are for
IMAGE_EMBEDDINGS = "image_embeddings"  # (B,W,R,C), or of several maps, the finest first, IMAGE_MAPS
IMAGE_FEATURES = "image_features"  # (I,N,W): the vectors of images that a decoder reads; of any size (N,W)
AUDIO_FEATURES = "audio_features"  # (N,W): the vectors of sounds that a decoder reads
DEEP_FEATURES = "deep_features"  # within a graph, by layer: what is added to its output (B,S,W)
IMAGE_MASK = "image_mask"  # within a graph: whether a token attends to a vector of an image (B,S,E)
SEES_IMAGES = "sees_images"  # within a graph: whether a token sees an image (B,S,1)
IMAGE_MAPS = tuple(f"{IMAGE_EMBEDDINGS}.{level}" for level in range(3))
IMAGE_POSITIONS = "image_positional_embeddings"  # (B,W,R,C)
INPUT_POINTS = "input_points"  # (B,P,N,2): x and y in pixels of the image after resizing
INPUT_LABELS = "input_labels"  # (B,P,N)
NO_POINT, ABSENT = -1, -10  # labels of what is no point, and of padding
CORNERS = 2, 3  # labels of a box's corners; a point outside of an object has 0, one in it 1
INPUT_BOXES = "input_boxes"  # (B,P,4): left, top, right, bottom
INPUT_MASKS = "input_masks"  # (B,Q,4R,4C): logits of a mask for each group of prompts, or one for all
HAS_MASKS = "has_input_masks"  # (B,Q): 1 where there is such a mask, 0 where its numbers are not read

# Outputs
LAST_HIDDEN_STATE = "last_hidden_state"  # (B,S,W), or of a map (B,W,R,C)
POOLER_OUTPUT = "pooler_output"  # (B,W)
LOGITS = "logits"
START_LOGITS = "start_logits"  # (B,S)
END_LOGITS = "end_logits"  # (B,S)
PREDICTION_LOGITS = "prediction_logits"  # (B,S,V), with a second score of the pair
SEQ_RELATIONSHIP_LOGITS = "seq_relationship_logits"  # (B,2)
CLS_LOGITS = "cls_logits"  # (B,labels)
DISTILLATION_LOGITS = "distillation_logits"  # (B,labels)
TEXT_EMBEDS = "text_embeds"  # (T,W)
IMAGE_EMBEDS = "image_embeds"  # (I,W), or of every patch (I,R,C,W)
AUDIO_EMBEDS = "audio_embeds"  # (I,W)
PRED_BOXES = "pred_boxes"  # (B,Q,4): centre, width, height, as shares of the image's
PREDICTED_DEPTH = "predicted_depth"  # (B,height,width), of the pixels of whole patches
HEATMAPS = "heatmaps"  # (B,points,height,width)
IOU_SCORES = "iou_scores"  # (B,P,M): the estimated intersection over union of each mask
CLASS_QUERIES_LOGITS = "class_queries_logits"  # (B,Q,labels)
MASKS_QUERIES_LOGITS = "masks_queries_logits"  # (B,Q,R,C)
PRED_MASKS = "pred_masks"  # (B,P,M,4R,4C): logits
OBJECT_SCORES = "object_score_logits"  # (B,P,1): of whether there is an object
EMBEDDINGS = "embeddings"  # (B,D): a speaker's vector; of every token (B,S,D)
LOGITS_PER_TEXT = "logits_per_text"  # (T,I)
LOGITS_PER_IMAGE = "logits_per_image"  # (I,T)
LOGITS_PER_AUDIO = "logits_per_audio"  # (I,T)
ALIGNMENT_WEIGHTS = "alignment_weights"  # (B,A,S,E): cross-attention of the A heads that align tokens

# Outputs beside those of a task, one for every layer, by `of_layer`
HIDDEN_STATES = "hidden_states"  # (B,S,W): the input of the first layer, then the output of each
ATTENTIONS = "attentions"  # (B,N,S,T): the weight of each key for a query; they add up to 1
CROSS_ATTENTIONS = "cross_attentions"  # (B,N,S,E): the same over an encoder's output
# Names of the stacks, if there are two
ENCODER, DECODER, TEXT, VISION, AUDIO = "encoder", "decoder", "text", "vision", "audio"

# Dimensions
BATCH_SIZE = "batch_size"
SEQUENCE_LENGTH = "sequence_length"
ENCODER_SEQUENCE_LENGTH = "encoder_sequence_length"
PAST_ENCODER_SEQUENCE_LENGTH = "past_encoder_sequence_length"  # the same, or 0 before the first step
PAST_SEQUENCE_LENGTH = "past_sequence_length"
TOTAL_SEQUENCE_LENGTH = "total_sequence_length"
CAPACITY = "capacity"
LOGITS_LENGTH = "logits_length"
NUM_HEADS, HEAD_DIM = "num_heads", "head_dim"  # of a graph that takes any
NUM_CHOICES = "num_choices"
POINT_BATCH_SIZE = "point_batch_size"  # groups of prompts, each of one object
LABEL_BATCH_SIZE = "label_batch_size"  # the same where points may be of one group, and none
MASK_BATCH_SIZE = "mask_batch_size"
NUM_POINTS, NUM_BOXES = "num_points", "num_boxes"
NUM_QUERIES = "num_queries"  # texts that are compared with an image
NUM_PATCHES = "num_patches"
NUM_IMAGES = "num_images"  # of a prompt, or its tiles
NUM_IMAGE_VECTORS = "num_image_vectors"  # of the images of a prompt, with padding
PAGE_LENGTH = "page_length"  # tokens of a page, and patches of its image
NUM_FEATURES = "num_features"  # vectors of images or sounds among the new tokens
HEIGHT, WIDTH = "height", "width"
MASK_HEIGHT, MASK_WIDTH = "mask_height", "mask_width"
DEPTH_HEIGHT, DEPTH_WIDTH = "depth_height", "depth_width"
HEATMAP_HEIGHT, HEATMAP_WIDTH = "heatmap_height", "heatmap_width"
MAP_HEIGHT, MAP_WIDTH = "map_height", "map_width"
LOGITS_HEIGHT, LOGITS_WIDTH = "logits_height", "logits_width"
NUM_SAMPLES = "num_samples"
NUM_FRAMES = "num_frames"
SOURCES = "sources"  # of which adjacent rows of a batch may share one; the batch is a multiple of it
TEXT_BATCH_SIZE = "text_batch_size"
IMAGE_BATCH_SIZE = "image_batch_size"
AUDIO_BATCH_SIZE = "audio_batch_size"


def of_layer(kind: str, layer: int, stack: str | None = None) -> str:
    """The name of a layer's output, as in transformers and transformers.js: decoder_attentions.0."""
    return f"{kind}.{layer}" if stack is None else f"{stack}_{kind}.{layer}"


def media_features(ports: Container[str]) -> str:
    """The name of the vectors of images or of sounds in prompts, which is among `ports`."""
    return AUDIO_FEATURES if AUDIO_FEATURES in ports else IMAGE_FEATURES
