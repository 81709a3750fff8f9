"""The steps of `tools/cuda`: pack, unpack, check, verify, captured, float16, bench, report."""
