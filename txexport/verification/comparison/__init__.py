"""Two models held against each other: ONNX files, PyTorch modules, bundles, other tools' exports."""
