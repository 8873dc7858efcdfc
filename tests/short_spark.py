"""Spark settings for tests. With few rows, Spark takes longer to compile a query than to run it.

A report of 600 jobs took 46 s of processor time with Spark's defaults, and 13 s with these settings. The demo
(`tests/service/test_demo.py`) and the server of Spark Connect make their reports with compiled queries.
"""

from collections.abc import Mapping

# A test process ends too soon to benefit from the C2 compiler, which itself uses processor time.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
INTERPRETED: Mapping[str, str] = {"spark.sql.codegen.wholeStage": "false"}
