"""From prompts to new tokens."""
