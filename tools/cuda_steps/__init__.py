"""The steps of `tools/cuda`: pack, unpack, check, verify, float16, bench, report."""
