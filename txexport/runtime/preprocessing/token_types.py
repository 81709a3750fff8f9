"""token_type_ids as in transformers 5: which models receive them."""

from collections.abc import Mapping
from typing import Any

from txexport.contracts.names import TOKEN_TYPE_IDS
from txexport.errors import BundleError
from txexport.support.tokenizer_classes import CLASSES, named_class, tokenizer_class

OWN = "txexport"  # the model type of a spec built by hand, for which transformers has no class


def gives_types(settings: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Return whether the tokenizer makes token_type_ids: by its `model_input_names`, its class or `config`.

    Without them every token counts as one of the first text. Raises BundleError for names that are not a
    list.
    """
    names = settings.get("model_input_names")
    if names is not None:
        if not isinstance(names, list):
            raise BundleError(
                f"tokenizer_config.json: model_input_names is a {type(names).__name__}, expected a list"
            )
        return TOKEN_TYPE_IDS in names
    if CLASSES[tokenizer_class(settings, config)].gives_token_types:
        return True
    return config.get("model_type") == OWN and named_class(settings, config) is None
