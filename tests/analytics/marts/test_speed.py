from pyspark.sql import SparkSession

from euterpe.analytics.marts import speed
from euterpe.analytics.options import Options
from tests.analytics.facts.history_rows import Row
from tests.analytics.marts.rows import by, facts_of, values


def encoded(media_seconds: float, seconds: float, **fields: object) -> Row:
    factor = media_seconds / seconds
    return {"media_seconds": media_seconds, "encode_ms": int(seconds * 1000), "speed": factor, **fields}


def test_the_factor_is_all_media_over_all_time_and_not_a_mean_of_factors(spark: SparkSession) -> None:
    attempts = [
        encoded(60, 60, cpu_seconds=120.0),  # a real-time factor of 1
        encoded(300, 60, cpu_seconds=60.0),  # a real-time factor of 5
        encoded(120, 40, ffmpeg="9.1"),  # a real-time factor of 3, without processor time
        encoded(999, 1, outcome="failed"),
        {},
    ]
    rows = by(speed.make(facts_of(spark, attempts=attempts), Options()), "ffmpeg")
    old = rows["9.0.2"]
    assert values(old, "attempts", "media_minutes", "factor", "p50_factor") == (2, 6, 3, 3)
    assert values(old, "p05_factor", "cpu_per_media_second") == (1.2, 0.5)
    assert values(rows["9.1"], "attempts", "factor", "cpu_per_media_second") == (1, 3, None)
