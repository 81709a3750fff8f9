"""The hash tree is that of RFC 6962, which other software computes too."""

import hashlib
import shutil
import subprocess

import numpy as np
import pytest

from txexport.verification.attestations.hash_tree import CHUNK, hashed, root

# The leaves and roots of certificate-transparency's own tests.
LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def test_roots_are_those_of_certificate_transparency():
    leaves = [bytes.fromhex(leaf) for leaf in LEAVES]
    assert [root(leaves[:count]) for count in range(1, 9)] == ROOTS
    assert root([]) == hashlib.sha256(b"").hexdigest()


def test_a_file_and_its_ranges_are_hashed_in_one_reading(tmp_path):
    content = np.random.default_rng(0).bytes(3 * CHUNK + 17)
    file = tmp_path / "weights"
    file.write_bytes(content)
    ranges = [(0, 0), (5, CHUNK + 1), (CHUNK + 6, 9), (2 * CHUNK, CHUNK), (3 * CHUNK, 17)]
    digest, digests = hashed(file, ranges)
    assert digest == hashlib.sha256(content).hexdigest()
    expected = [hashlib.sha256(content[start : start + length]).hexdigest() for start, length in ranges]
    assert digests == expected
    if shutil.which("sha256sum"):
        printed = subprocess.run(["sha256sum", file], capture_output=True, text=True, check=True).stdout
        assert printed.split()[0] == digest


@pytest.mark.parametrize("start", [10, 50])
def test_a_range_beyond_the_end_has_the_bytes_that_are_there(tmp_path, start):
    (tmp_path / "short").write_bytes(bytes(range(20)))
    digest, digests = hashed(tmp_path / "short", [(start, 1 << 60)])
    assert digest == hashlib.sha256(bytes(range(20))).hexdigest()
    assert digests == [hashlib.sha256(bytes(range(20))[start:]).hexdigest()]
