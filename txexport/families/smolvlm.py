"""SmolVLM (Marafioti et al. 2025): Idefics3 over small decoders."""

from txexport.families import idefics3

TASKS = {"image-text-to-text": ("SmolVLMForConditionalGeneration",)}

NAMING = idefics3.NAMING
spec, table_of = idefics3.spec, idefics3.table_of
