"""One line of the table."""
from dataclasses import dataclass


@dataclass
class Row:
    part: str  # which of the last line's numbers it counts for
    case: str
    ours: float
    peer: float
    unit: str  # us: less is better; tokens/s: more is
    ratio: float  # how many times better ours is
    required: float
    note: str = ""
    wrong: str = ""  # how the two sides' results differ, where they must not

    @property
    def over(self):
        return self.ratio / self.required


WIDTHS = {"part": "<19", "case": "<70", "ours": ">11", "peer": ">11", "unit": "<9", "ratio": ">7", "required": ">8",
          "over": ">6", "note": "<0"}


def cells(row):
    """The texts of a row's columns; without a row, the heading."""
    if row is None:
        return {name: name for name in WIDTHS}
    numbers = {"ours": f"{row.ours:.1f}", "peer": f"{row.peer:.1f}", "ratio": f"{row.ratio:.2f}",
               "required": f"{row.required:.2f}", "over": f"{row.over:.2f}"}
    return {name: numbers.get(name) or getattr(row, name) for name in WIDTHS}


def show(row):
    print("  ".join(format(text, WIDTHS[name]) for name, text in cells(row).items()).rstrip(), flush=True)


def from_times(part, case, ours, peer, required, note=""):
    """A row of two times in microseconds."""
    return Row(part, case, ours, peer, "us", peer / ours, required, note)
