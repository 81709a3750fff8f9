"""Incremental decoding: pieces of text that together equal the decoding of all tokens at once."""

from txexport.runtime.preprocessing.decoding import BROKEN
from txexport.runtime.preprocessing.text import Text, tokenizing


class Pieces:
    """Turns tokens, one by one, into text that never splits a character and never changes later."""

    def __init__(self, text: Text):
        self.joining, self.cleaning = text.joining, text.cleaning
        self.tokens: list[int] = []
        self.known = self.read = 0  # tokens before `read` are decoded; those from `known` on are context
        self.held, self.tried = "", 0  # text that is held back; its length that was tried already

    def add(self, token: int) -> str:
        """The text that `token` completes; empty while more tokens may change it."""
        if token in self.joining.special:
            return ""
        self.tokens.append(token)
        if not self.joining.grows or self.joining.is_byte(token):
            return ""
        return self._settled(self._more(complete=False))

    def rest(self) -> str:
        """The rest of the text at the end, an incomplete character included."""
        piece = self.cleaning.clean(self.held + self._more(complete=True))
        self.held, self.tried = "", 0
        return piece

    def _more(self, complete: bool) -> str:
        """The text of the tokens from `read` on, before clean-up."""
        with tokenizing():
            before = self.joining.text(self.tokens[self.known : self.read])
            after = self.joining.text(self.tokens[self.known :])
        if len(after) <= len(before) or (after.endswith(BROKEN) and not complete):
            return ""
        self.known, self.read = self.read, len(self.tokens)
        return after[len(before) :]

    def _settled(self, more: str) -> str:
        """The longest prefix of the held text that later text cannot change, cleaned."""
        self.held += more
        for end in range(len(self.held), self.tried, -1):
            if self.cleaning.settles(self.held[:end]):
                piece, self.held, self.tried = self.cleaning.clean(self.held[:end]), self.held[end:], 0
                return piece
        self.tried = len(self.held)
        return ""
