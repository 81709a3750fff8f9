"""Phrases that a reader from the field does not know, and habits of naming, with the number that remains.

`tests/test_layout.py` counts them. A number may only fall: lower it in the commit that removes a phrase, and
delete the row at 0 only if the phrase cannot return.
"""

# Regular expression, over lower-case text with single blanks -> the standard term, and how often the
# expression still matches.
PHRASES = {
    r"made 1 long\b": ("L2-normalised", 0),
    r"overheard\b": ("recorded", 0),
    r" (bundles|models|that|what) hears?\b": ("audio", 1),
    r"neighbours (are |is )?(turn|rotat)": ("interleaved RoPE", 0),
    r"laid apart\b": ("de-interleaved", 0),
    r" (all see one another|sees? all others)\b": ("bidirectional attention", 0),
    r"leavers\b": ("finished rows", 0),
    r"near enough\b": ("within the bound", 0),
    r"third opinion\b": ("second reference", 0),
    r"behind the back\b": ("bypassing", 0),
    r"turn(s|ed)? anew\b": ("dynamic NTK RoPE rescales", 0),
    r"in vain\b": ("discarded", 0),
    r"put into words\b": ("image captioning", 0),
    r"word (matrix|matrices|vectors?)\b": ("word embedding", 0),
    r"corrected sigmoids?\b": ("sigmoid scores with e_score_correction_bias", 0),
    r"rotates? nothing\b": ("no RoPE", 2),
    r" (is|are) told\b": ("takes, receives or is notified", 6),
    r" (is|are) asked for\b": ("is requested", 7),
    r"looked at\b": ("checked", 3),
    r"whose (they are|it is)\b": ("its owner", 0),
    r"of which all are\b": ("all of which are", 1),
    r"is nobody's\b": ("is ignored", 1),
    r"goes round\b": ("is circular", 0),
    r"sought\b": ("named after its value", 0),
    r"dearest\b": ("most expensive", 0),
    r"what (it|they|one|he|she) gives?\b": ("the result", 0),
    r"so many\b": ("that number of", 6),
    r"stand(s|ing)? (before|behind|beside)\b": ("precedes, follows", 5),
    r"towers? of (texts|images)\b": ("text encoder, image encoder", 0),
    r"looks? (ahead|back)\b": ("causal", 0),
    r"masked words?\b": ("masked tokens", 0),
    r"sandwiched norms?\b": ("sandwich norm", 0),
    r"how (near|far) is\b": ("error bound", 0),
    r"of its own accord\b": ("by default", 0),
}

# Docstrings that begin with What, Whether or How.
QUESTION_DOCSTRINGS = 2

# Variables and parameters named by habit, not after what they hold.
HABITUAL_NAMES = {
    "alone",
    "asked",
    "found",
    "given",
    "kept",
    "made",
    "own",
    "places",
    "said",
    "sought",
    "told",
    "whole",
    "words",
}
HABITUAL_BINDINGS = 1297
