"""An independent tokenizer: the rules as a regular expression over character classes, merges applied one by one."""
import re
import unicodedata

from small_model import spelling

CONTRACTION = re.compile(r"'(?:s|t|re|ve|m|ll|d)")
# GPT-2's expression, with L, N, S and O standing for letters, numbers, white space but " ", and all other characters.
WORD = re.compile(r" ?L+| ?O+|[ S]+(?![^ S])|[ S]+")


def character_class(char):
    if char == " ":
        return " "
    if char.isspace() and not "\x1c" <= char <= "\x1f":
        return "S"
    return {"L": "L", "N": "N"}.get(unicodedata.category(char)[0], "O")


def words(text):
    """Every number character stands alone; between them the expression cuts."""
    for part in re.split("(N)", "".join(map(character_class, text))):
        piece, text = text[: len(part)], text[len(part) :]
        at = 0
        while at < len(part) and part != "N":
            match = CONTRACTION.match(piece, at) or WORD.match(part, at)
            yield piece[at : match.end()]
            at = match.end()
        if part == "N":
            yield piece


class Tokenizer:
    def __init__(self, tokens, types, merges):
        self.ids = {token: i for i, (token, kind) in enumerate(zip(tokens, types)) if kind == 1}
        self.ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(merges)}
        self.spelling = spelling()

    def __call__(self, text):
        return [token for word in words(text) for token in self.merge(word)]

    def merge(self, word):
        parts = [self.spelling[byte] for byte in word.encode()]
        parts = [part for part in parts if part in self.ids]
        while len(parts) > 1:
            ranks = [self.ranks.get(pair, len(self.ranks)) for pair in zip(parts, parts[1:])]
            best = min(ranks)
            if best == len(self.ranks):
                break
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self.ids[part] for part in parts]
