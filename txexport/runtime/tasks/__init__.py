"""The functions of bundles: one module for a task, or for a group of tasks."""
