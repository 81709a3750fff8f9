"""What bundles are for: a file a task, or a kind of tasks."""
