"""Entries of logs that plugins of TensorBoard show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf import struct_pb2
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams.api_pb2 import (
    DataType,
    Experiment,
    HParamInfo,
    MetricInfo,
    MetricName,
    Status,
)
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboard.plugins.mesh import metadata as mesh_metadata
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

from ...core.tensor import Tensor
from ._arrays import array
from ._summaries import metadata

_TINY = 1e-7


def _shape(found: np.ndarray) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in found.shape])


# Precision and recall.


def pr_curve(tag: str, labels: Any, predictions: Any, thresholds: int, weights: Any) -> Summary:
    thresholds = min(thresholds, 127)  # as many as the plugin shows
    truth, scores = array(labels).reshape(-1).astype(bool), array(predictions).reshape(-1).astype(np.float64)
    weight = np.ones(truth.shape) if weights is None else array(weights).reshape(-1).astype(np.float64)
    places = np.int32(np.floor(scores * (thresholds - 1)))

    def counts(chosen: np.ndarray) -> np.ndarray:
        """How much weight is at or above each threshold."""
        found, _ = np.histogram(places, thresholds, (0, thresholds - 1), weights=weight * chosen)
        return found[::-1].cumsum()[::-1]

    true, false = counts(truth), counts(~truth)
    negative, missed = false[0] - false, true[0] - true
    precision = true / np.maximum(_TINY, true + false)
    recall = true / np.maximum(_TINY, true + missed)
    return pr_curve_of_rows(tag, [true, false, negative, missed, precision, recall], thresholds)


def pr_curve_of_rows(tag: str, rows: Sequence[np.ndarray], thresholds: int) -> Summary:
    thresholds = min(thresholds, 127)
    content = PrCurvePluginData(version=0, num_thresholds=thresholds).SerializeToString()
    data = np.stack(rows)
    proto = TensorProto(dtype="DT_FLOAT", float_val=data.reshape(-1).tolist(), tensor_shape=_shape(data))
    return Summary(value=[Summary.Value(tag=tag, metadata=metadata("pr_curves", content), tensor=proto)])


# Charts.


def custom_scalars(layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> Summary:
    categories = [
        layout_pb2.Category(title=category, chart=[_chart(title, said) for title, said in charts.items()])
        for category, charts in layout.items()
    ]
    content = layout_pb2.Layout(category=categories).SerializeToString()
    proto = TensorProto(dtype="DT_STRING", string_val=[content], tensor_shape=TensorShapeProto())
    value = Summary.Value(tag="custom_scalars__config__", tensor=proto, metadata=metadata("custom_scalars"))
    return Summary(value=[value])


def _chart(title: str, said: Sequence[Any]) -> Any:
    kind, tags = said
    if kind == "Margin":
        if len(tags) != 3:
            raise AssertionError(
                "a chart with a margin has three tags: the value, its lower and its upper bound"
            )
        series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
        return layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series]))
    content = layout_pb2.MultilineChartContent(tag=[r".*" if tag == "*" else tag for tag in tags])
    return layout_pb2.Chart(title=title, multiline=content)


# Meshes.


def mesh(tag: str, vertices: Any, colors: Any, faces: Any, config: str) -> Summary:
    kinds = {"VERTEX": vertices, "FACE": faces, "COLOR": colors}
    given = {kind: array(found) for kind, found in kinds.items() if found is not None}
    components = mesh_metadata.get_components_bitmask([getattr(MeshPluginData, kind) for kind in given])
    values = []
    for kind, found in given.items():
        number = getattr(MeshPluginData, kind)
        name = mesh_metadata.get_instance_name(tag, number)
        about = mesh_metadata.create_summary_metadata(
            tag, "", number, components, list(found.shape), json_config=config
        )
        proto = TensorProto(
            dtype="DT_FLOAT", float_val=found.reshape(-1).tolist(), tensor_shape=_shape(found)
        )
        values.append(Summary.Value(tag=name, tensor=proto, metadata=about))
    return Summary(value=values)


# Hyperparameters.


def hparams(
    given: Mapping[str, Any], metrics: Mapping[str, Any], domains: Mapping[str, Sequence[Any]]
) -> tuple[Summary, Summary, Summary]:
    """(the experiment, the start of a session, its end)."""
    start = SessionStartInfo()
    infos = []
    for name, value in given.items():
        if value is None:
            continue
        kind, _ = _kind(name, value)
        start.hparams[name].CopyFrom(_value(name, value))
        domain = None
        if name in domains:
            domain = struct_pb2.ListValue(values=[_value(name, item) for item in domains[name]])
        infos.append(HParamInfo(name=name, type=DataType.Value(kind), domain_discrete=domain))
    known = [MetricInfo(name=MetricName(tag=name)) for name in metrics]
    experiment = HParamsPluginData(experiment=Experiment(hparam_infos=infos, metric_infos=known))
    begun = HParamsPluginData(session_start_info=start)
    ended = HParamsPluginData(session_end_info=SessionEndInfo(status=Status.Value("STATUS_SUCCESS")))
    names = ("experiment", "session_start_info", "session_end_info")
    found = [_hparams_summary(n, data) for n, data in zip(names, (experiment, begun, ended), strict=True)]
    return found[0], found[1], found[2]


def _hparams_summary(name: str, data: HParamsPluginData) -> Summary:
    about = SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name="hparams", content=data.SerializeToString())
    )
    return Summary(value=[Summary.Value(tag=f"_hparams_/{name}", metadata=about)])


def _kind(name: str, value: Any) -> tuple[str, Any]:
    if isinstance(value, Tensor | np.generic | np.ndarray):
        value = array(value).item()
    if isinstance(value, int | float):  # a bool is one, as in PyTorch's logs
        return "DATA_TYPE_FLOAT64", value
    if isinstance(value, str):
        return "DATA_TYPE_STRING", value
    raise ValueError(
        f"{name}: a value should be one of int, float, str, bool, or torch.Tensor, not {type(value)}"
    )


def _value(name: str, item: Any) -> struct_pb2.Value:
    kind, plain = _kind(name, item)
    if kind == "DATA_TYPE_STRING":
        return struct_pb2.Value(string_value=plain)
    return struct_pb2.Value(number_value=plain)
