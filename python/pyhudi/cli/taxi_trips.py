"""Taxi trips for the quickstart: invented, the same in every run, and similar to real ones.

Every value is a hash of the trip's number, so the rows do not depend on how Spark splits them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

FIRST_DAY = "2025-03-03"
DAYS = 7
ZONES = (
    "Airport", "Botanical Garden", "Central Station", "City Hall", "East Bank", "Fairground",
    "Harbour", "Hospital", "Market Square", "Mill Lane", "North Gate", "Old Town", "Opera",
    "Riverside", "South Hill", "Stadium", "Tech Park", "University", "Vineyards", "West End",
)  # fmt: skip
PAYMENTS = ("card", "card", "card", "app", "app", "cash", "cash", "invoice")
#: the weight of each hour of a day, for the hours in which trips start
HOURS = (3, 2, 1, 1, 1, 2, 4, 8, 10, 7, 5, 5, 6, 5, 5, 6, 8, 11, 11, 9, 7, 6, 6, 5)
METERS_PER_MINUTE = 380
TENTHS = 10_000


def trips(spark: SparkSession, first: int, count: int, last_day_only: bool = False) -> DataFrame:
    """Trips number ``first`` to ``first + count``, over the week or on its last day."""
    number = F.col("id")
    day = F.lit(DAYS - 1) if last_day_only else _draw("day", DAYS)
    hour = _one_of([hour for hour, weight in enumerate(HOURS) for _ in range(weight)], "hour")
    second = hour * 3600 + _draw("second", 3600)
    # The product of two draws gives many short trips and few long ones.
    meters = 600 + (_draw("near", TENTHS) * _draw("far", TENTHS) / 4_500).cast("int")
    midnight = F.to_timestamp(F.lit(FIRST_DAY))
    started = midnight + F.make_dt_interval(day, secs=second.cast("decimal(18,6)"))
    minutes = 3 + meters / METERS_PER_MINUTE * (0.8 + _draw("traffic", 100) / 100)
    ended = started + F.make_dt_interval(secs=F.round(minutes * 60).cast("decimal(18,6)"))
    fare = 3.4 + meters / 1000 * 1.85 + minutes * 0.32
    tip = F.when(_draw("tips", 10) < 4, fare * _draw("tip", 25) / 100).otherwise(0)
    return spark.range(first, first + count).select(
        F.format_string("T%08d", number).alias("trip_id"),
        (F.lit(1) + _draw("taxi", 400)).cast("int").alias("taxi"),
        started.alias("started_at"),
        ended.alias("ended_at"),
        _one_of(ZONES, "from").alias("from_zone"),
        _one_of(ZONES, "to").alias("to_zone"),
        (F.lit(1) + _draw("riders", 4)).cast("int").alias("riders"),
        F.round(meters / 1000, 2).alias("km"),
        fare.cast("decimal(8,2)").alias("fare"),
        tip.cast("decimal(8,2)").alias("tip"),
        _one_of(PAYMENTS, "payment").alias("payment"),
        ended.alias("updated_at"),
        F.date_format(started, "yyyy-MM-dd").alias("day"),
    )


def corrections(booked: DataFrame, one_in: int) -> DataFrame:
    """One of ``one_in`` trips with a fare reduced by a tenth, changed a day after its end."""
    chosen = F.pmod(F.xxhash64("trip_id", F.lit("correction")), F.lit(one_in)) == 0
    return (
        booked.where(chosen)
        .withColumn("fare", (F.col("fare") * 0.9).cast("decimal(8,2)"))
        .withColumn("updated_at", F.col("updated_at") + F.expr("interval 1 day"))
    )


def late_news(booked: DataFrame, count: int) -> DataFrame:
    """``count`` trips with an ordering value one hour older: rows that must not win."""
    return (
        booked.limit(count)
        .withColumn("payment", F.lit("unknown"))
        .withColumn("updated_at", F.col("updated_at") - F.expr("interval 1 hour"))
    )


def _draw(what: str, bound: int) -> Column:
    """A whole number below ``bound``: a hash of the trip's number and ``what``."""
    return F.pmod(F.xxhash64("id", F.lit(what)), F.lit(bound))


def _one_of(values: Sequence[str | int], what: str) -> Column:
    chosen = F.array(*[F.lit(value) for value in values])
    return chosen[_draw(what, len(values)).cast("int")]
