"""Files of torch.save: state dicts, as pytorch_model.bin holds them, read without PyTorch.

`pickles` reads the pickle in them and calls nothing, `state_dicts` says which of its values are the weights,
`files` where the numbers lie, in the zip form and in the one of before PyTorch 1.6.

Source: torch/serialization.py; what may stand in a pickle is less than torch.load takes with weights_only.
"""
