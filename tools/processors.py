"""Run the tests as on other processors: .venv/bin/python tools/processors.py [PYTEST_ARGUMENT ...]

Each library selects its code by the vector instructions available, and most have settings that disable some.
ONNX Runtime has none. PROFILES (as "oldest avx2") selects among the profiles, which run one after the other.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
PROFILES = {
    # Without AVX, as of 2010: supported by every x86-64 processor that the libraries run on; one thread.
    "oldest": {
        "MKL_CBWR": "COMPATIBLE",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OV_CPU_MAX_ISA": "SSE41",  # for OpenVINO's own kernels; the other is oneDNN's
        "OPENBLAS_CORETYPE": "Nehalem",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4,-AVX512F",
        "OMP_NUM_THREADS": "1",
    },
    # Most desktops and laptops; more threads than cores, perhaps.
    "avx2": {
        "MKL_CBWR": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OV_CPU_MAX_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F",
        "OMP_NUM_THREADS": "4",
    },
    # All instructions of this processor.
    "newest": {"OMP_NUM_THREADS": "2"},
}


def environment(profile: str) -> dict[str, str]:
    """The environment variables of a process for that profile."""
    extensions = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    wide = [name for name in extensions if "512" in name or "V4" in name]
    disabled = {"oldest": extensions, "avx2": wide, "newest": []}[profile]
    return os.environ | PROFILES[profile] | {"NPY_DISABLE_CPU_FEATURES": " ".join(disabled)}


def main(arguments: list[str]) -> int:
    """Run pytest with `arguments` in each profile; 0 where all passed."""
    failed = []
    for profile in os.environ.get("PROFILES", " ".join(PROFILES)).split():
        chosen = environment(profile)
        set_here = [f"{name}={chosen[name]}" for name in (*PROFILES[profile], "NPY_DISABLE_CPU_FEATURES")]
        print(f"== {profile}: {' '.join(set_here)}", flush=True)
        if subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, env=chosen).returncode:
            failed.append(profile)
    print(f"== failed as on: {', '.join(failed)}" if failed else "== passed as on each")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
