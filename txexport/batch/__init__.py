"""Many rows through a bundle, on more than one machine: what Ray Data and Spark take."""

from txexport.batch.predictor import Predictor

__all__ = ["Predictor"]
