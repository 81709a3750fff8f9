"""Batch inference on several machines, for Ray Data and Spark."""

from txexport.batch.predictor import Predictor

__all__ = ["Predictor"]
