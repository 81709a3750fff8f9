"""What trains the components: the literature's objectives and schedules, metrics, checkpoints in and out."""
