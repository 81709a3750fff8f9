"""What `tools/cuda` does, a step each: pack, unpack, check, verify, float16, bench, report."""
