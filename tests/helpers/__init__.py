"""What several test modules share: rows, mutations, changes of bundles and graphs, judges."""

import pytest

pytest.register_assert_rewrite("helpers.reports", "helpers.twins")  # which judge, and say what they saw
