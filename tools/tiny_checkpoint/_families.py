"""The families, in the order in which pages and tests list them."""

from tiny_checkpoint._rows_others import OTHERS
from tiny_checkpoint._rows_texts import TEXTS

# model_type -> the default architecture, and its sizes: small and odd.
FAMILIES = TEXTS | OTHERS
