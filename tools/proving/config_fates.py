"""The outcomes of another value of a key."""

FOLLOWED, REFUSED, INERT = "followed", "refused", "inert"
LIBRARY = "refused by transformers"
WRONG = "wrong"

# Differences that stay, by family and key, with the reason.
KNOWN = {
    ("youtu", "pad_token_id"): "transformers zeroes the padding token's vector when it loads a checkpoint",
}
