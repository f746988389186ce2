package io.pyhudi

import org.apache.spark.sql.connector.catalog.TableChange

/** The TBLPROPERTIES of an ALTER TABLE. */
private[pyhudi] object HudiProperties {

  /** What the changes set, and what they drop. */
  def of(changes: Seq[TableChange]): (Map[String, String], Seq[String]) = {
    val settings = changes.collect { case set: TableChange.SetProperty =>
      set.property -> set.value
    }
    (settings.toMap, changes.collect { case gone: TableChange.RemoveProperty => gone.property })
  }

  /** Has Python refuse properties with which the table's next write would fail. */
  def check(target: HudiTarget, changes: Seq[TableChange]): Unit = {
    val (settings, dropped) = of(changes)
    if (settings.nonEmpty) {
      Bridge.ask("check_properties", target.place, "given" -> settings, "dropped" -> dropped)
      ()
    }
  }
}
