"""The Spark data source `euterpe`, for `spark.read` and `spark.readStream`, on every database engine.

Options:

- `table`: jobs, attempts, events or deliveries.
- `url`: the URL of the database (default: EUTERPE_DATABASE_URL).
- `rows`: the number of rows in each partition (default: 250,000).
- `metadata`: the keys of a job's metadata that may be read, separated by commas (default: none).
- `since` and `until`: two cuts, as JSON. The rows committed between these cuts are read.

A read returns the rows up to one cut, however long the read takes and however many tasks it has. A stream's
offset is a cut. Name the columns you need with `.schema(…)`, because otherwise all columns are read: Spark
does not pass the columns of a query to a Python source.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as spark
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from euterpe.analytics.errors import AnalyticsError
from euterpe.analytics.schema import Column, Table, spark_schema
from euterpe.analytics.source import filters as pushed
from euterpe.analytics.source.reading import keep_allowed, read_part
from euterpe.analytics.tables import HISTORY
from euterpe.store.engine.database import Database
from euterpe.store.history.feed import Bookmark, Cut, HistoryFeed, PositionRange

_ROWS = 250_000
# A cut, with the additional field `marks`, which shows whether the cut is still valid. `marks` is JSON text,
# because Spark rejects nested dictionaries.
Offset = dict[str, int | str]


@dataclass(frozen=True)
class SourceOptions:
    """The settings that the tasks of a read need: database, table, columns and allowed metadata keys."""

    url: str
    table: Table
    columns: tuple[Column, ...]
    rows: int
    metadata: frozenset[str]

    def parts(self, since: Cut, until: Cut | None) -> list[spark.InputPartition]:
        with open_history(self.url) as history:
            ranges = history.ranges(self.table.name, since, until or history.now().cut, self.rows)
        return [spark.InputPartition(part) for part in ranges]

    def read(
        self, partition: spark.InputPartition, filters: Sequence[spark.Filter] = ()
    ) -> Iterator[pa.RecordBatch]:
        part: PositionRange | None = partition.value
        if part is None:  # Spark passes None if `partitions` returned no parts
            return
        where = pushed.conditions(self.table, filters)
        # If no metadata key is allowed, the column `metadata` is not read from the database.
        read = [column for column in self.columns if self.metadata or column.name != "metadata"]
        with open_history(self.url) as history:
            for piece in history.answers(part):
                for batch in read_part(history, self.table.name, piece, read, where):
                    yield keep_allowed(batch, self.columns, self.metadata)


class EuterpeSource(spark.DataSource):
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        table = options.get("table", "")
        if table not in HISTORY:
            names = ", ".join(HISTORY)
            raise AnalyticsError(f"there is no table {table!r}; option `table` is one of {names}")
        self._table = HISTORY[table]
        self._url = options.get("url") or os.environ.get("EUTERPE_DATABASE_URL", "")
        if not self._url:
            raise AnalyticsError("which database? Set option `url`, or EUTERPE_DATABASE_URL")
        self._options = dict(options)

    @classmethod
    def name(cls) -> str:
        return "euterpe"

    def schema(self) -> StructType:
        return spark_schema(self._table)

    def reader(self, schema: StructType) -> spark.DataSourceReader:
        since, until = (_cut(self._options.get(name)) for name in ("since", "until"))
        # Spark rejects a reader with `pushFilters` if the session's configuration does not enable pushdown.
        # So only the option `pushdown` selects such a reader.
        kind = _PushingReader if self._options.get("pushdown") == "true" else _Reader
        return kind(self._source(schema), since or Cut(), until)

    def streamReader(self, schema: StructType) -> spark.DataSourceStreamReader:  # noqa: N802  Spark's name
        return _StreamReader(self._source(schema))

    def _source(self, schema: StructType) -> SourceOptions:
        by_name = {column.name: column for column in self._table.columns}
        if unknown := [name for name in schema.names if name not in by_name]:
            raise AnalyticsError(f"table {self._table.name} has no column {unknown[0]!r}")
        allowed = self._options.get("metadata", "").split(",")
        return SourceOptions(
            self._url,
            self._table,
            tuple(by_name[name] for name in schema.names),
            _count(self._options.get("rows", str(_ROWS))),
            frozenset(key.strip() for key in allowed if key.strip()),
        )


class _Reader(spark.DataSourceReader):
    def __init__(self, source: SourceOptions, since: Cut, until: Cut | None) -> None:
        self._source, self._since, self._until = source, since, until
        self._filters: list[spark.Filter] = []

    def partitions(self) -> Sequence[spark.InputPartition]:
        return self._source.parts(self._since, self._until)

    def read(self, partition: spark.InputPartition) -> Iterator[pa.RecordBatch]:
        return self._source.read(partition, self._filters)


class _PushingReader(_Reader):
    def pushFilters(self, filters: list[spark.Filter]) -> list[spark.Filter]:  # noqa: N802  Spark's name
        self._filters, remaining = pushed.split(self._source.table, filters)
        return remaining


class _StreamReader(spark.DataSourceStreamReader):
    def __init__(self, source: SourceOptions) -> None:
        self._source = source

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        return {**Cut()._asdict(), "marks": ""}

    def latestOffset(self, start: Offset, limit: Any) -> Offset:  # noqa: N802, ARG002
        with open_history(self._source.url) as history:
            began = _cut_of(start)
            if began != Cut() and not history.knows(Bookmark(began, json.loads(str(start["marks"])))):
                raise AnalyticsError(
                    "the database is not the one that this stream has read, or the last read rows are gone: "
                    "begin a new one, with a new checkpoint"
                )
            now = history.now()
        return {**now.cut._asdict(), "marks": json.dumps(now.marks)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[spark.InputPartition]:
        return self._source.parts(_cut_of(start), _cut_of(end))

    def read(self, partition: spark.InputPartition) -> Iterator[pa.RecordBatch]:
        return self._source.read(partition)


@contextmanager
def open_history(url: str) -> Iterator[HistoryFeed]:
    """Open a database and yield its `HistoryFeed`; close the database at the end."""
    database = Database(url)
    try:
        yield HistoryFeed(database)
    finally:
        database.close()


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise AnalyticsError(f"option `rows` must be a number of rows of at least 1, not {text!r}")
    return int(text)


def _cut_of(offset: Offset) -> Cut:
    return Cut(*(int(offset[name]) for name in Cut._fields))


def _cut(document: str | None) -> Cut | None:
    return None if document is None else Cut(**json.loads(document))


def register(session: SparkSession) -> None:
    """Register `format("euterpe")` in a session."""
    session.dataSource.register(EuterpeSource)


def read_table(
    session: SparkSession, table: str, *, columns: Sequence[str] = (), **options: Any
) -> DataFrame:
    """Return a table as a DataFrame. The database applies filters, and reads only the named columns.

    Over Spark Connect, the option `url` is not sent, because the server logs the options of a read, and the
    URL can contain a password. The server's own EUTERPE_DATABASE_URL then names the database.
    """
    register(session)
    if is_remote():
        options.pop("url", None)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    reader = session.read.format("euterpe").option("table", table).option("pushdown", "true")
    if columns:
        whole = spark_schema(HISTORY[table])
        reader = reader.schema(StructType([whole[name] for name in columns]))
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()
