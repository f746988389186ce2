"""Checks of pyhudi against real components: Apache Hudi, hudi-rs, lock services, object stores."""
