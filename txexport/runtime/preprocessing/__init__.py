"""What stands before a graph: texts to token ids, images and sounds to numbers."""
