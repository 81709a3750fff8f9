"""ExportBench: small ONNX exports with the right verdict of each, and a score for whoever judges exports."""
