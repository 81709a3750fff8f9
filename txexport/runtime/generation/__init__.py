"""Text generation: from prompts to new tokens."""
