"""Helpers shared by test modules: rows, mutations, edits of bundles and graphs, assertions."""

import pytest

pytest.register_assert_rewrite("helpers.reports", "helpers.twins")  # pytest rewrites their assertions
