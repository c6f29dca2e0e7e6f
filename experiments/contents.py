r"""Every figure and table of the five papers, and the command that makes it."""

from __future__ import annotations

from typing import NamedTuple

PAPERS = {
    "PF-TS": "Lazzaro et al. (2026)",
    "MR-LPF": "Kayal et al. (2025)",
    "POP-BO": "Xu et al. (2024)",
    "COBOL": "Xu et al. (2024b)",
    "COMP-GP-UCB": "Xu et al. (2020)",
}


class Item(NamedTuple):
    r"""A figure, a table or a theorem of a paper.

    Attributes:
        paper: A key of :data:`PAPERS`.
        name: What the paper calls it.
        what: What it shows.
        command: The arguments of ``python -m experiments`` that make it; empty if it cannot be.
        because: Why it cannot be made, or what is another here.
    """

    paper: str
    name: str
    what: str
    command: str = ""
    because: str = ""


_BOUNDS = "the bounds as numbers; the paper has orders"
_OTHERS_DATA = "another data set here: the paper's is not free to pass on"

CONTENTS = (
    Item("PF-TS", "Fig. 1", "maximisers against anchors", "anchor"),
    Item("PF-TS", "Fig. 2 a, b", "Ackley's function", "ackley"),
    Item("PF-TS", "Fig. 2 c, d", "catalysts", "catalyst"),
    Item("PF-TS", "Fig. 3", "values at another price", "cost"),
    Item("PF-TS", "Fig. 4 a, b", "hyperparameters of a network", "hpo", _OTHERS_DATA),
    Item("PF-TS", "Fig. 4 c, d", "a function of an RKHS", "rkhs"),
    Item("PF-TS", "Theorem 1", "regret", "bounds"),
    Item("MR-LPF", "Table 1", "orders of the regret", "bounds", _BOUNDS),
    Item("MR-LPF", "Fig. 1 a", "RKHS, squared exponential", "rkhs-se"),
    Item("MR-LPF", "Fig. 1 b", "RKHS, Matern-5/2", "rkhs-matern25"),
    Item("MR-LPF", "Fig. 1 c", "RKHS, Matern-3/2", "rkhs-matern15"),
    Item("MR-LPF", "Fig. 1 d", "Ackley, squared exponential", "ackley-2000-se"),
    Item("MR-LPF", "Fig. 1 e", "Ackley, Matern-5/2", "ackley-2000-matern25"),
    Item("MR-LPF", "Fig. 1 f", "Ackley, Matern-3/2", "ackley-2000-matern15"),
    Item("MR-LPF", "Fig. 2", "ratings of restaurants", "yelp", _OTHERS_DATA),
    Item("MR-LPF", "Fig. 3", "the functions of Fig. 1", "", "their ten values are not printed"),
    Item("MR-LPF", "Theorem 4.1 to 4.7", "regret, samples, widths", "bounds"),
    Item("POP-BO", "Fig. 1", "confidence bands", "pop-band"),
    Item("POP-BO", "Figs. 2, 4", "samples on a line, rates", "pop-gp"),
    Item("POP-BO", "Table 1", "seconds", "pop-gp", "shares of DTS's are in its column of seconds"),
    Item("POP-BO", "Fig. 3", "samples in 12 dimensions", "pop-12d"),
    Item("POP-BO", "Fig. 5", "samples in 7 dimensions", "pop-7d"),
    Item("POP-BO", "Fig. 6", "Ackley in 6 dimensions", "pop-ackley6"),
    Item("POP-BO", "Fig. 7", "thermal comfort in 2 dimensions", "thermal-2d"),
    Item("POP-BO", "Fig. 8", "thermal comfort in 4 dimensions", "thermal-4d"),
    Item("POP-BO", "Figs. 9 to 11", "regret on the way, test functions", "pop-table2"),
    Item("POP-BO", "Table 2", "test functions", "pop-table2"),
    Item("POP-BO", "Table 3, linear", "rates", "pop-linear", "the slope, for the order"),
    Item("POP-BO", "Table 3, squared exponential", "rates", "pop-gp", "likewise"),
    Item("POP-BO", "Table 3, Matern", "rates", "", "no experiment of the paper has this kernel"),
    Item("COBOL", "Table 1", "orders of the regret", "", "it has orders without constants"),
    Item("COBOL", "Table 2", "methods compared in words", "", "nothing in it is measured"),
    Item("COBOL", "Fig. 3", "five accuracies, settings", "cobol-robustness"),
    Item("COBOL", "Fig. 3, their code", "five accuracies, bounded belief", "cobol-bounded"),
    Item("COBOL", "Figs. 4, 8", "helpful expert, five functions", "cobol-ablation"),
    Item(
        "COBOL",
        "Fig. 5 and App. J.3",
        "electrolytes, four experts",
        "cobol-electrolyte",
        "one, made up: the experts' labels, the fitted coefficients and the interpolants are not "
        "published",
    ),
    Item("COBOL", "Fig. 6", "pinpointing, normal beliefs", "cobol-variants"),
    Item("COBOL", "App. H.2", "a belief function as advice", "cobol-variants"),
    Item("COBOL", "Fig. 7", "changing accuracy", "cobol-variants"),
    Item("COBOL", "Fig. 9", "adversarial experts", "cobol-no-harm"),
    Item("COMP-GP-UCB", "Figs. 1 a, b", "Currin's function", "comp-currin"),
    Item("COMP-GP-UCB", "Figs. 1 c, d", "a support vector machine", "comp-svm"),
    Item("COMP-GP-UCB", "Fig. 2", "regrets of duels and values", "comp-currin"),
    Item("COMP-GP-UCB", "Fig. 3", "the borehole function", "comp-borehole"),
    Item("COMP-GP-UCB", "Fig. 4", "duels by the objective", "comp-unbiased"),
)
"""What the papers show, in their order."""


def contents_text() -> str:
    """All items, by papers, one a line."""
    lines = []
    for key, source in PAPERS.items():
        lines.append(f"\n{key}, {source}:")
        for item in (one for one in CONTENTS if one.paper == key):
            how = f"python -m experiments {item.command}" if item.command else "not possible here"
            if item.because:
                how += f" ({item.because})" if item.command else f", because {item.because}"
            lines.append(f"  {item.name}: {item.what}\n      {how}")
    return "\n".join(lines).lstrip("\n")
