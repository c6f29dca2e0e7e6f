r"""A Gaussian process with binary labels, under any kernel."""

from __future__ import annotations

from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from gpytorch.means import ConstantMean, Mean
from torch import Tensor
from torch.nn import Module

from botorch_pref.data.labels import Labels
from botorch_pref.inference.observations import Observations
from botorch_pref.kernels.items import default_covar_module
from botorch_pref.models.base import Inference, LaplaceGP, Observed, learn_bounds, num_columns


class BernoulliGP(LaplaceGP):
    r"""``P(label = 1 | x) = mu(f(x))`` with ``f ~ GP(m, k)``, by Laplace's approximation.

    With a plain kernel this is Gaussian process classification (Rasmussen and Williams
    2006, ch. 3). Over pairs ``[x, x']`` with a :class:`~botorch_pref.kernels.DuelingKernel`
    it is the preference model, with an :class:`~botorch_pref.kernels.AdditivePairKernel`
    it learns which slot is favoured.

    Example:
        >>> model = BernoulliGP(X, accepted)
        >>> fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        >>> model.probability(X)
    """

    _data_names = ("labels",)

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
        likelihood: Module | None = None,
        input_transform: InputTransform | None = None,
        inference: Inference = "laplace",
    ) -> None:
        r"""Validate the data and set up the prior.

        Args:
            train_X: ``batch_shape x n x D``-dim inputs.
            train_Y: ``batch_shape x n x 1``-dim labels: 1 accept, 0 reject, 0.5 undecided.
            covar_module: Any kernel; by default that of
                :class:`~botorch_pref.models.PreferenceGP`.
            mean_module: The prior mean; by default a constant that is learnt.
            likelihood: The link, of this package or one of BoTorch's two; logit by default.
            input_transform: Applied where inputs meet the kernel, with gradients.
            inference: ``"laplace"``, or ``"ep"`` for expectation propagation.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
        """
        labels = Labels(train_X, train_Y, ("train_X", "train_Y"))
        batch_shape, dim = labels.batch_shape, num_columns(train_X, input_transform)
        super().__init__(
            covar_module=covar_module or default_covar_module(dim, batch_shape),
            mean_module=mean_module or ConstantMean(batch_shape=batch_shape),
            likelihood=likelihood,
            input_transform=input_transform,
            inference=inference,
        )
        self.labels, self.num_observations = labels, labels.num_items
        self.to(train_X)
        learn_bounds(self._transform, self.items)
        self.eval()

    @property
    def items(self) -> Tensor:
        """The ``batch_shape x n x D``-dim inputs."""
        return self.labels.datapoints

    @property
    def train_targets(self) -> Tensor:
        """The ``batch_shape x n``-dim labels, as GPyTorch names them."""
        return self.labels.labels.squeeze(-1)

    def observed(self) -> Observed:
        return Observed(Observations(self.labels.blocks(self.likelihood), self.num_observations))

    def probability(self, X: Tensor) -> Tensor:
        r"""``E[mu(f(x))]`` under the posterior.

        Args:
            X: ``... x q x D``-dim points.

        Returns:
            ``... x q``-dim probabilities of the label 1.

        Raises:
            ComparisonDataError: If the points have other dimensions than the items.
        """
        self.check_dimension("X", X)
        self.eval()
        normal = self.forward(self.transform_inputs(X))
        variance = normal.lazy_covariance_matrix.diagonal(dim1=-2, dim2=-1)
        return self.likelihood.expected_probability(normal.mean, variance.clamp_min(0.0))
