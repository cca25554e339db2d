"""torchmetrics: metrics of a classifier and a regression, updated batch by batch."""

import torch
from driver import declare_vision, integers, numbers, serve

declare_vision()  # torchmetrics imports torchvision where there is one

from torchmetrics import MeanSquaredError, MetricCollection, PearsonCorrCoef, R2Score  # noqa: E402
from torchmetrics.classification import (  # noqa: E402
    MulticlassAccuracy,
    MulticlassCalibrationError,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
    MulticlassPrecision,
    MulticlassRecall,
)

CLASSES = 10
classes = MetricCollection(
    [
        MulticlassAccuracy(CLASSES),
        MulticlassF1Score(CLASSES),
        MulticlassPrecision(CLASSES),
        MulticlassRecall(CLASSES),
        MulticlassConfusionMatrix(CLASSES),
        MulticlassCalibrationError(CLASSES),
    ]
)
regression = MetricCollection([MeanSquaredError(), R2Score(), PearsonCorrCoef()])
scores = numbers("scores", 4, 512, CLASSES).softmax(-1)
labels = integers("labels", CLASSES, 4, 512)
given, wanted = numbers("given", 4, 512), numbers("wanted", 4, 512)


def step():
    classes.reset()
    regression.reset()
    with torch.no_grad():
        for i in range(4):
            classes.update(scores[i], labels[i])
            regression.update(given[i], wanted[i])
    return [classes.compute(), regression.compute()]


serve(step)
