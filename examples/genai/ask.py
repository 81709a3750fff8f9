"""Ask about images in onnxruntime-genai: python ask.py BUNDLE PROMPT IMAGE ...

The prompt has the tokens of the model's chat template. In place of each image, it has
<|vision_start|><|image_pad|><|vision_end|>. Images are files of PNG or JPEG.
"""

import sys

import onnxruntime_genai as og

bundle, prompt, *files = sys.argv[1:]
model = og.Model(bundle)
images = og.Images.open(*files) if files else None
inputs = model.create_multimodal_processor()(prompt, images=images)

params = og.GeneratorParams(model)
params.set_search_options(do_sample=False, max_length=inputs["input_ids"].shape()[1] + 100)
generator = og.Generator(model, params)
generator.set_inputs(inputs)
while not generator.is_done():
    generator.generate_next_token()

tokens = generator.get_sequence(0)[inputs["input_ids"].shape()[1] :]
print(og.Tokenizer(model).decode(tokens))
