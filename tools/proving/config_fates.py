"""The outcomes of another value of a key."""

FOLLOWED, REFUSED, INERT = "followed", "refused", "inert"
LIBRARY = "refused by transformers"
WRONG = "wrong"

# Differences that stay, by family and key, with the reason.
KNOWN = {
    ("deformable_detr", "with_box_refine"): "transformers fills tensors that the tiny model lacks at random",
    ("youtu", "pad_token_id"): "transformers zeroes the padding token's vector when it loads a checkpoint",
}
