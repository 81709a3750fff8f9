"""What a bundle is tried with, and how."""
