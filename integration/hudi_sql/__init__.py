"""Statements of SQL on Apache Hudi 1.2.0 and on pyhudi, side by side."""
