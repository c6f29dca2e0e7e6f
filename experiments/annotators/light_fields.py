r"""What telling annotators apart gains on held-out answers of people.

*light-fields* are 26,580 answers of 29 people, *tone-mapping* 1,213 answers of 18 others about
videos under seven tone mapping operators. ``--shuffle`` draws by chance who gave an answer and
which item was the first one, so that there is nothing to learn of people.

Items are described by their scene, the type of their distortion, or operator, and its level.
``pooled`` is ``PreferenceGP`` without annotators; the others have annotators of whom reliability,
offset of the first item and lapses are learnt, or some of these alone. ``bradley-terry`` has a
utility of its own for each item. Either single answers are held out, or all answers to some pairs.
Run it with ``python -m experiments annotators``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from botorch_pref.cli.parser import count
from botorch_pref.data import Comparisons
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.progress import tracked
from botorch_pref.runner import num_threads
from experiments.arguments import Parser, jobs

MODELS = {
    "pooled": (),
    "reliability": ("reliability",),
    "offset": ("offset",),
    "both": ("reliability", "offset"),
    "all": ("reliability", "offset", "lapse"),
    "bradley-terry": (),
    "bradley-terry all": ("reliability", "offset", "lapse"),
}
DATA = {
    "light-fields": "light_field_answers.csv.gz",
    "tone-mapping": "tone_mapping_answers.csv.gz",
}
_NO_LAPSE = -40.0  # its logit
_ALONE = 0.005  # a lengthscale at which no two items are alike


class Answers(NamedTuple):
    """``n x d``-dim items; of ``m`` answers the pairs, whether the first won, and who said it."""

    items: Tensor
    pairs: Tensor
    wins: Tensor
    who: Tensor


def answers_of_people(name: str = "light-fields") -> Answers:
    """All answers of a data set, in the order in which the items were shown."""
    table = pd.read_csv(Path(__file__).parent / "data" / DATA[name])
    sides = [
        list(zip(table["scene"], table[f"type_{i}"], table[f"level_{i}"], strict=True))
        for i in "12"
    ]
    found = sorted({*sides[0], *sides[1]})
    scenes, kinds = sorted({scene for scene, *_ in found}), sorted({kind for _, kind, _ in found})
    items = [
        [*(scene == one for one in scenes), *(kind == one for one in kinds), level / 24]
        for scene, kind, level in found
    ]
    number = {item: row for row, item in enumerate(found)}
    pairs = torch.tensor([[number[item] for item in side] for side in sides]).T
    wins = torch.tensor(table["selected"].to_numpy() == 1).double()
    people = {name: i for i, name in enumerate(sorted(table["observer"].unique()))}
    who = torch.tensor([people[name] for name in table["observer"]])
    return Answers(torch.tensor(items, dtype=torch.double), pairs, wins, who)


def shuffled(data: Answers) -> Answers:
    """The same answers, of people and with first items that are drawn by chance."""
    generator = torch.Generator().manual_seed(1)
    who = data.who[torch.randperm(len(data.who), generator=generator)]
    turned = torch.rand(len(who), generator=generator) < 0.5
    pairs = torch.where(turned.unsqueeze(-1), data.pairs.flip(-1), data.pairs)
    return Answers(data.items, pairs, torch.where(turned, 1.0 - data.wins, data.wins), who)


class Part(NamedTuple):
    """One model, learnt without one fold."""

    model: str
    fold: int
    folds: int
    holds_pairs: bool
    people: int | None
    data: str
    shuffle: bool

    @num_threads()
    def run(self) -> list[dict[str, str | int | float]]:
        """A row for each held-out answer."""
        data = answers_of_people(self.data)
        if self.shuffle:
            data = shuffled(data)
        if self.people is not None:
            some = data.who < self.people
            data = data._replace(pairs=data.pairs[some], wins=data.wins[some], who=data.who[some])
        sorted_pairs = data.pairs.sort(-1).values
        units = sorted_pairs[:, 0] * len(data.items) + sorted_pairs[:, 1]
        units = (
            units.unique(return_inverse=True)[1] if self.holds_pairs else torch.arange(len(units))
        )
        generator = torch.Generator().manual_seed(0)
        held = torch.randint(self.folds, (int(units.max()) + 1,), generator=generator)[units]
        held = held == self.fold
        start = time.process_time()
        model = self._fitted(data, ~held)
        seconds = time.process_time() - start
        known = data.who[held] if MODELS[self.model] else None
        with torch.no_grad():
            chance = model.win_probability(data.items[data.pairs[held]], known)
        log = torch.where(data.wins[held] == 1, chance.log(), torch.log1p(-chance)).tolist()
        own = {"model": self.model, "fold": self.fold, "seconds": seconds}
        rows = held.nonzero().squeeze(-1).tolist()
        return [{**own, "row": row, "log": value} for row, value in zip(rows, log, strict=True)]

    def _fitted(self, data: Answers, kept: Tensor) -> PreferenceGP:
        kinds, wins = MODELS[self.model], data.wins[kept]
        who = data.who[kept] if kinds else None
        told = Comparisons(data.items, data.pairs[kept], wins, torch.ones_like(wins), who)
        kernel = None
        if self.model.startswith("bradley-terry"):
            base = RBFKernel()
            base.raw_lengthscale.requires_grad_(False)
            base.lengthscale = _ALONE
            kernel = ScaleKernel(base, outputscale_prior=LogNormalPrior(1.4, 1.0)).double()
        model = PreferenceGP(data.items, told, covar_module=kernel)
        if kinds:
            effects = model.learnt["annotators"]
            for kind, names in (
                ("reliability", ("log_reliability",)),
                ("offset", ("offset", "typical_offset")),
                ("lapse", ("logit_lapse", "typical_logit_lapse")),
            ):
                for name in names if kind not in kinds else ():
                    getattr(effects, name).requires_grad_(False)
            if "lapse" not in kinds:
                effects.typical_logit_lapse.fill_(_NO_LAPSE)
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        return model


def summary_text(table: pd.DataFrame) -> str:
    """Log probabilities an answer, and what each model gains on the first, over the answers."""
    wide = table.pivot_table("log", "row", "model", sort=False)
    seconds = table.drop_duplicates(["model", "fold"]).groupby("model")["seconds"].mean()
    rows = []
    for name in wide:
        gain = (wide[name] - wide.iloc[:, 0]).dropna()
        row = {"model": name, "log probability": f"{wide[name].mean():.4f}"}
        row["gain"] = f"{gain.mean():+.4f} ± {gain.std() / np.sqrt(len(gain)):.4f}"
        rows.append({**row, "answers": len(gain), "fit, s": f"{seconds[name]:.1f}"})
    return pd.DataFrame(rows).to_string(index=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table from the command line."""
    parser = Parser(prog="experiments annotators", description=str(__doc__))
    parser.add_argument(
        "--models", nargs="+", choices=[*MODELS], default=[*MODELS], metavar="MODEL"
    )
    parser.add_argument("--folds", type=count, default=5, help="default: 5")
    parser.add_argument("--pairs", action="store_true", help="hold out all answers to a pair")
    parser.add_argument("--people", type=count, help="of so many of them; default: all")
    parser.add_argument("--data", choices=[*DATA], default="light-fields", metavar="NAME")
    parser.add_argument("--shuffle", action="store_true", help="leave nothing to learn of people")
    parser.add_argument("--jobs", type=jobs, default=1, help="number of processes; default: 1")
    parser.add_argument("--out", metavar="CSV", help="save the log probabilities here")
    arguments = parser.parse_args(argv)
    parts = [
        Part(
            model,
            fold,
            arguments.folds,
            arguments.pairs,
            arguments.people,
            arguments.data,
            arguments.shuffle,
        )
        for fold in range(arguments.folds)
        for model in arguments.models
    ]
    runs = joblib.Parallel(n_jobs=arguments.jobs, return_as="generator")(
        joblib.delayed(part.run)() for part in parts
    )
    table = pd.DataFrame([row for rows in tracked(runs, "fits", len(parts)) for row in rows])
    if arguments.out:
        table.round(5).to_csv(arguments.out, index=False)
    print(summary_text(table))
    return 0
