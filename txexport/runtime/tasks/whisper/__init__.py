"""Whisper: transcripts with times, of sounds of any length (Radford et al. 2022)."""
