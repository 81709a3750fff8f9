"""Objects in images that the phrases of one text describe; Q queries, T tokens, P phrases."""

from collections.abc import Sequence

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import LOGITS, PRED_BOXES
from txexport.errors import InputError, shown
from txexport.runtime.batches import encode, inputs_of
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.session import finite
from txexport.runtime.tasks.detection import Detection, box_of, corners_of
from txexport.runtime.tasks.image_tasks import each_output
from txexport.runtime.tasks.labels import sigmoid

END = "."  # of a phrase
SEPARATOR = f"{END} "


class Phrases:
    """Texts as the phrases of one text, tokenised; `queries` are their lowercase forms.

    Raises InputError for a text with a full stop or without tokens, and for too many tokens.
    """

    def __init__(self, bundle: LoadedBundle, labels: Sequence[str], queries: Sequence[str], truncate: bool):
        phrases = [query.strip().lower() for query in queries]
        for phrase in phrases:
            if not phrase or END in phrase:
                raise InputError(
                    f"text {shown(phrase)} with the template; expected a phrase without '{END}', "
                    "which ends one"
                )
        self.bundle, self.labels = bundle, labels
        [encoding] = encode(bundle, [SEPARATOR.join(phrases) + END], truncate)
        self.inputs = inputs_of(bundle, roles.MODEL, [encoding])
        self.count = len(encoding)  # T
        ends = np.cumsum([len(phrase) + len(SEPARATOR) for phrase in phrases])
        starts = ends - [len(phrase) + len(SEPARATOR) for phrase in phrases]
        first, last = np.array(encoding.offsets).reshape(-1, 2).T  # characters of each token (T)
        within = (first >= starts[:, None]) & (last <= ends[:, None] - len(SEPARATOR)) & (last > first)
        self.owned: np.ndarray = within  # (P, T)

    def objects(self, images: Sequence, threshold: float) -> list[list[Detection]]:
        """The objects of each image, likeliest first."""
        results = []
        for image, outputs in each_output(self.bundle, images, beside=self.inputs, infinite=(LOGITS,)):
            logits = outputs[LOGITS][:, : self.count]  # (Q, T), with scores of tokens alone
            scores = sigmoid(finite({LOGITS: logits})[LOGITS])
            corners = corners_of(outputs[PRED_BOXES], image.height, image.width)  # (Q, 4)
            results.append(self._likely(scores, corners, threshold))
        return results

    def _likely(self, scores: np.ndarray, corners: np.ndarray, threshold: float) -> list[Detection]:
        """The objects by the scores (Q,T) of tokens: the best one's, and the phrase of the best in one."""
        highest = scores.max(axis=1)  # (Q)
        by_phrase = np.where(self.owned, scores[:, None], -1.0).max(axis=2)  # (Q, P)
        best = by_phrase.argmax(axis=1)
        order = np.argsort(-highest, kind="stable")
        return [
            {
                "label": self.labels[best[query]],
                "score": float(highest[query]),
                "box": box_of(corners[query]),
            }
            for query in order.tolist()
            if highest[query] > threshold
        ]
