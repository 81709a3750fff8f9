"""Files of torch.save: state dicts, as in pytorch_model.bin, read without PyTorch.

`pickles` reads the pickle and calls nothing, `state_dicts` selects the weights among its values, `files`
locates the numbers, in the zip form and in the form before PyTorch 1.6. Source: torch/serialization.py; fewer
pickles are accepted than by torch.load with weights_only.
"""
