"""One exact sum over all rows of a client, for every shard of another stage."""

from decimal import Decimal

from booksan.messages import Message, to_frame
from booksan.stages.columns import exact_sum
from booksan.stages.graph import Keyed
from booksan.stages.kinds import ColumnType
from booksan.stages.operator import Piece, Stateful
from booksan.stages.table import frame_of


class Total(Stateful):
    """Takes rows of `sum`, a decimal as text, and `n`; gives one such row, or none for none."""

    schema = "CREATE TABLE total (sum TEXT NOT NULL, n INTEGER NOT NULL)"

    def __init__(self, to: str) -> None:
        self._to = to

    def create(self) -> None:
        super().create()
        self.db.execute("INSERT INTO total VALUES ('0', 0)")

    def prepare(self, message: Message) -> tuple[Decimal, int]:
        frame = to_frame(message.body)
        return exact_sum(frame["sum"]), int(frame["n"].sum())

    def apply(self, message: Message, prepared: tuple[Decimal, int]) -> None:
        (before,) = self.db.execute("SELECT sum FROM total").fetchone()
        self.db.execute(
            "UPDATE total SET sum = ?, n = n + ?",
            (str(exact_sum((before, prepared[0]))), prepared[1]),
        )

    def final(self, cursor: str | None) -> Piece:
        rows = self.db.execute("SELECT sum, n FROM total WHERE n > 0").fetchall()
        frame = frame_of(rows, {"sum": ColumnType.TEXT, "n": ColumnType.INTEGER})
        return Piece({self._to: Keyed(frame, every=True)})
