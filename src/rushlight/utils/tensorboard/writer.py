"""Logs for TensorBoard."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any

from tensorboard.compat.proto import event_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from . import _embedding, _graph, _plugins, _summaries
from ._arrays import array

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes events to a file in a directory.

    >>> import tempfile
    >>> directory = tempfile.mkdtemp()
    >>> rl.utils.tensorboard.FileWriter(directory).get_logdir() == directory
    True
    """

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        self._directory = str(log_dir)
        self.event_writer = EventFileWriter(self._directory, max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        return self._directory

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        self.add_event(event_pb2.Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile: Any, walltime: float | None = None) -> None:
        graph = graph_profile[0]
        self.add_event(event_pb2.Event(graph_def=graph.SerializeToString()), None, walltime)

    def flush(self) -> None:
        self.event_writer.flush()

    def close(self) -> None:
        self.event_writer.close()


class SummaryWriter:
    """Writes what TensorBoard shows: numbers, histograms, pictures, text, graphs, ... of a run, to a directory.

    >>> import os, tempfile
    >>> with rl.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
    ...     for step in range(3):
    ...         writer.add_scalar("loss", 1 / (step + 1), step)
    >>> len(os.listdir(writer.log_dir))
    1
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._layout: dict[str, dict[str, Any]] = {}
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = self._new_writer(self.log_dir)
            self.all_writers = {self.log_dir: self.file_writer}
            if self.purge_step is not None:
                step = self.purge_step
                self.file_writer.add_event(event_pb2.Event(step=step, file_version="brain.Event:2"))
                log = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
                self.file_writer.add_event(event_pb2.Event(step=step, session_log=log))
                self.purge_step = None
        return self.file_writer

    def _new_writer(self, directory: str) -> FileWriter:
        return FileWriter(directory, self.max_queue, self.flush_secs, self.filename_suffix)

    def _add(self, summary: Any, step: Any = None, walltime: float | None = None) -> None:
        self._get_file_writer().add_summary(summary, step, walltime)

    def get_logdir(self) -> str:
        """The directory that is written to."""
        return self.log_dir

    # Numbers.

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """A number at a step."""
        summary = _summaries.scalar(tag, scalar_value, new_style=new_style, double_precision=double_precision)
        self._add(summary, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Several numbers in one chart, each in a directory of its own."""
        directory = self._get_file_writer().get_logdir()
        writers = self.all_writers
        assert writers is not None
        for tag, value in tag_scalar_dict.items():
            place = os.path.join(directory, f"{main_tag}_{tag}".replace("/", "_"))
            if place not in writers:
                writers[place] = self._new_writer(place)
            writers[place].add_summary(_summaries.scalar(main_tag, value), global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """A tensor at a step."""
        self._add(_summaries.tensor(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How values are distributed."""
        self._add(_summaries.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Sequence[float],
        bucket_counts: Sequence[float],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """A histogram that was counted already."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        counts = {"bucket_limit": list(bucket_limits), "bucket": list(bucket_counts)}
        parts = {"min": min, "max": max, "num": num, "sum": sum, "sum_squares": sum_squares, **counts}
        self._add(_summaries.counted_histogram(tag, parts), global_step, walltime)

    # Pictures, sounds and text.

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture, of brightness from 0 to 1, or of uint8."""
        self._add(_summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Several pictures side by side."""
        self._add(_summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:
        """A picture with boxes (left, top, right, bottom) drawn into it."""
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != array(box_tensor).shape[0]:
            labels = None
        drawn = _summaries.image(tag, img_tensor, dataformats, rescale, box_tensor, labels)
        self._add(drawn, global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib, or several, as a picture."""
        pixels = _summaries.figure_pixels(figure, close)
        self.add_image(tag, pixels, global_step, walltime, "NHWC" if pixels.ndim == 4 else "HWC")

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: Any = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Pictures that move: (batch, time, channels, height, width)."""
        self._add(_summaries.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """A sound, of samples from -1 to 1."""
        self._add(_summaries.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """A text, in Markdown."""
        self._add(_summaries.text(tag, text_string), global_step, walltime)

    # Programs.

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """The graph of operators of a module, called with `input_to_model`. `use_strict_trace` chooses between
        two ways to record in PyTorch; there is one here."""
        graph = _graph.of_module(model, input_to_model)
        if verbose:
            print(graph)
        self._get_file_writer().add_graph((graph, None))

    def add_onnx_graph(self, prototxt: Any) -> None:
        """The graph of an ONNX file."""
        self._get_file_writer().add_graph((_graph.of_onnx(prototxt), None))

    # What plugins of TensorBoard show.

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Points, with labels and pictures of them."""
        _embedding.write(
            self.log_dir,
            array(mat),
            metadata,
            label_img,
            0 if global_step is None else global_step,
            tag,
            metadata_header,
        )

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall at thresholds, of labels and probabilities."""
        summary = _plugins.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(summary, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall that were computed already, and so need no `weights`."""
        if weights is not None:
            raise ValueError("add_pr_curve_raw: weights are part of the counts")
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        rows = [array(part) for part in (*counts, precision, recall)]
        self._add(_plugins.pr_curve_of_rows(tag, rows, num_thresholds), global_step, walltime)

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Which numbers are in which chart: {category: {title: ["Multiline" or "Margin", [tags]]}}."""
        self._add(_plugins.custom_scalars(layout))

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """A chart with a line for each tag."""
        self._add(_plugins.custom_scalars({category: {title: ["Multiline", tags]}}))

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """A chart with a line and a lower and an upper bound."""
        if len(tags) != 3:
            raise AssertionError(
                "a chart with a margin has three tags: the value, its lower and its upper bound"
            )
        self._add(_plugins.custom_scalars({category: {title: ["Margin", tags]}}))

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Mapping[str, Any] | None = None,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """A surface, or points, in space."""
        config = json.dumps(config_dict or {}, sort_keys=True)
        self._add(_plugins.mesh(tag, vertices, colors, faces, config), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """What a run was made with, and what came of it."""
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        parts = _plugins.hparams(hparam_dict, metric_dict, hparam_domain_discrete or {})
        directory = os.path.join(self.log_dir, str(time.time()) if run_name is None else run_name)
        with SummaryWriter(directory) as writer:
            for part in parts:
                writer._add(part)
            for name, value in metric_dict.items():
                writer.add_scalar(name, value, global_step)

    # The files.

    def flush(self) -> None:
        """Write what has not been written yet."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write what has not been written yet, and end. A later entry begins a new file."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()
