"""Side-by-side runs of pyhudi, Apache Hudi, Delta Lake, Iceberg and plain Parquet on one Spark."""
