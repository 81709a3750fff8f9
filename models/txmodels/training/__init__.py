"""Training of the components: objectives and schedules of the literature, metrics, checkpoints."""
