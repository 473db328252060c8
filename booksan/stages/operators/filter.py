"""Rows of a source that pass go straight on."""

from collections.abc import Callable, Mapping

import polars as pl

from booksan.messages import Message, to_frame
from booksan.spec import HOME
from booksan.stages.graph import Keyed, Params
from booksan.stages.operator import Stateless

Select = Callable[[pl.DataFrame, Params], pl.DataFrame]


class Filter(Stateless):
    """The rows that the function makes of a batch's rows are the answer's."""

    def __init__(self, select: Select) -> None:
        self._select = select

    def transform(self, message: Message) -> Mapping[str, Keyed]:
        return {HOME: Keyed(self._select(to_frame(message.body), self.params))}
