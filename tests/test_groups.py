"""Groups of pytest-xdist are in force, which pytest 9.2.0 disregards: what tests share is made once."""

import pytest

pytestmark = pytest.mark.xdist_group("groups")


def test_a_group_has_a_worker(request):
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("without groups")
    assert request.node.nodeid.endswith("::test_a_group_has_a_worker@groups")
