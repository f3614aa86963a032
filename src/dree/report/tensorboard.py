"""Runs under way as TensorBoard shows them: a log for each, with its epoch and its mean gap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dree.errors import DreeError
from dree.experiments.engines.base import News, Tell


@contextmanager
def tensorboard_logs(folder: Path) -> Iterator[Tell]:
    """Something to tell news to; they are written to `folder/<run>`, for: tensorboard --logdir FOLDER"""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise DreeError(
            "Logs for TensorBoard need the package tensorboard. Install it with: pip install 'dree[tensorboard]'"
        ) from None
    writers: dict[str, Any] = {}
    gaps: dict[str, float | None] = {}

    def tell(news: News) -> None:
        if news.error is not None:
            return
        if news.job not in writers:
            # What an earlier process has logged of later epochs, which are learned again, is not shown.
            writers[news.job] = SummaryWriter(str(folder / news.job), purge_step=news.epoch)
        writer = writers[news.job]
        writer.add_scalar("epoch", news.epoch, news.epoch)
        if news.gap is not None and news.gap != gaps.get(news.job):  # the same until the next test
            writer.add_scalar("mean gap (%)", news.gap, news.epoch)
            gaps[news.job] = news.gap
        if news.epoch == news.epochs:
            writer.flush()

    try:
        yield tell
    finally:
        for writer in writers.values():
            writer.close()
