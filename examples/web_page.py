r"""Find the picture you like best, on a web page.

Run this script, and in a second terminal the page that it names:

    pip install -c constraints.txt -e ".[optuna]"
    python examples/web_page.py
    optuna-dashboard sqlite:///pictures.db --artifact-dir pictures

The page of the study shows two pictures at a time. Click on "Worst" below the worse one, which
makes room for a new one. Everything is in the database, so that both may be stopped at any time;
run this script once at a time, as it gives up what it was at when it was stopped.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from optuna import load_study
from optuna.artifacts import FileSystemArtifactStore, upload_artifact
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState
from optuna_dashboard import register_preference_feedback_component
from optuna_dashboard.preferential import PreferentialStudy, create_study
from which_flower import COLOURS, draw

from botorch_pref.integrations.optuna import PreferentialSampler

STUDY = "flowers"
PICTURE = "picture"  # the attribute of a trial that names its image
PARAMETERS: dict[str, BaseDistribution] = {
    "petals": IntDistribution(3, 12),
    "depth": FloatDistribution(0.0, 0.9),
    "line width": FloatDistribution(0.5, 12.0, log=True),
    "colours": CategoricalDistribution(COLOURS),
}


def open_study(storage: str, rule: str = "kg", seed: int = 0) -> PreferentialStudy:
    """The study in a database, which is made where there is none."""
    study = create_study(
        n_generate=2,
        storage=storage,
        sampler=PreferentialSampler(rule, seed=seed),
        study_name=STUDY,
        load_if_exists=True,
    )
    register_preference_feedback_component(study, "artifact", PICTURE)
    return study


def propose(study: PreferentialStudy, store: FileSystemArtifactStore) -> None:
    """Add trials, with their pictures, until there are two to compare."""
    while study.should_generate():
        trial = study.ask(PARAMETERS)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"flower {trial.number}.png"
            draw(trial.params, path)
            name = upload_artifact(artifact_store=store, file_path=str(path), study_or_trial=trial)
        trial.set_user_attr(PICTURE, name)
        print(f"trial {trial.number}: {trial.params}", flush=True)


def give_up(storage: str) -> None:
    """Fail trials that were begun, but have no picture: this script was stopped before."""
    study = load_study(study_name=STUDY, storage=storage)
    for trial in study.trials:
        if trial.state == TrialState.RUNNING and PICTURE not in trial.user_attrs:
            study.tell(trial.number, state=TrialState.FAIL)


def main() -> None:
    """Wait for answers, and propose a picture after each."""
    parser = argparse.ArgumentParser(description="Find the picture you like best, on a web page.")
    parser.add_argument("--storage", default="sqlite:///pictures.db", help="any URL of Optuna")
    parser.add_argument("--pictures", type=Path, default=Path("pictures"), help="folder of images")
    parser.add_argument("--rule", choices=("kg", "ts", "eubo"), default="kg")
    args = parser.parse_args()
    args.pictures.mkdir(exist_ok=True)
    study = open_study(args.storage, args.rule)
    give_up(args.storage)
    print(f"now run: optuna-dashboard {args.storage} --artifact-dir {args.pictures}")
    with suppress(KeyboardInterrupt):
        while True:
            propose(study, FileSystemArtifactStore(args.pictures))
            time.sleep(0.5)


if __name__ == "__main__":
    main()
