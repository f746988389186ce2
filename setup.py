"""Packaging: one wheel with the Python code, the Avro schemas and the jars of every Spark line."""

from pathlib import Path

from setuptools import find_packages, setup

S3 = ["boto3>=1.36,<2"]  # 1.36 is the first with If-None-Match on every put
ZOOKEEPER = ["kazoo>=2.8,<3"]
HIVE = ["pymetastore>=0.4,<1"]
DYNAMODB = ["boto3>=1.36,<2"]
CONNECT = [
    "googleapis-common-protos>=1.65,<2",
    "grpcio>=1.67,<2",
    "grpcio-status>=1.67,<2",
    "zstandard>=0.25,<1",
]
DEV = [
    *CONNECT,  # a client of Spark Connect, whose server needs none of it
    "greenlet>=3.1,<4",
    "hudi==0.5.0",
    "hypothesis>=6.100,<7",
    "ipykernel>=6.29,<8",
    "jupyter-client>=8.6,<9",
    "moto[server]>=5.0,<6",
    "mypy>=1.13,<3",
    "pandas-stubs<3",
    "pytest>=8,<10",
    "pytest-timeout>=2.3,<3",
    "ruff>=0.8,<1",
    "setuptools>=68",
    "wheel",
]

setup(
    name="pyhudi",
    version="0.1.0",
    description="Read and write Apache Hudi tables from Spark, with the decisions made in Python.",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    package_dir={"": "python"},
    packages=find_packages("python"),
    package_data={"pyhudi": ["py.typed", "jars/*.jar", "format/avro/*.avsc", "hudi_keys.txt"]},
    install_requires=[
        "aiohttp>=3.9,<4",  # the marker server
        "fastavro>=1.9,<2",
        "numpy>=1.24,<3",
        "pandas>=2.0,<3",  # PySpark needs it to run mapInArrow
        "py4j>=0.10.9.7,<0.11",
        "pyarrow>=15,<28",
        "pyspark>=3.5,<5",  # the lines of spark/jars.py; a newer one is tried with a warning
    ],
    extras_require={
        "s3": S3,
        "zookeeper": ZOOKEEPER,
        "hive": HIVE,
        "dynamodb": DYNAMODB,
        "all": sorted({*S3, *ZOOKEEPER, *HIVE, *DYNAMODB}),
        "dev": DEV,
        "docs": ["mkdocs>=1.6,<2", "mkdocstrings[python]>=0.29,<2"],
    },
    entry_points={"console_scripts": ["pyhudi = pyhudi.cli.main:main"]},
    classifiers=[
        "Programming Language :: Python :: 3 :: Only",
        "Typing :: Typed",
    ],
)
