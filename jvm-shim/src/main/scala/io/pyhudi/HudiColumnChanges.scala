package io.pyhudi

import org.apache.spark.sql.connector.catalog.TableChange
import org.apache.spark.sql.connector.catalog.TableChange._
import org.apache.spark.sql.types.{DataType, StructType}

/** ALTER TABLE's changes of columns as JSON objects; Python decides which of them can be done. */
private[pyhudi] object HudiColumnChanges {

  /** `None` for what concerns the catalog alone: comments, and what is no change of a column. */
  def toJson(change: TableChange): Option[Map[String, Any]] = change match {
    case add: AddColumn if add.position() == null && add.defaultValue() == null =>
      Some(named("add", add) ++ Map("type" -> json(add.dataType()), "nullable" -> add.isNullable))
    case add: AddColumn if add.position() != null => Some(named("position", add))
    case update: UpdateColumnType =>
      Some(named("type", update) + ("type" -> json(update.newDataType())))
    case update: UpdateColumnNullability if update.nullable() => Some(named("nullable", update))
    case update: UpdateColumnNullability => Some(named("not null", update))
    case update: UpdateColumnPosition => Some(named("position", update))
    case rename: RenameColumn => Some(named("rename", rename))
    case drop: DeleteColumn => Some(named("drop", drop))
    case _: UpdateColumnComment => None
    case other: ColumnChange => Some(named("default", other))
    case _ => None
  }

  private def named(change: String, column: ColumnChange): Map[String, Any] =
    Map("change" -> change, "column" -> column.fieldNames().mkString("."))

  /** The type as a schema's JSON has it. */
  private def json(dataType: DataType): Any =
    Json.of(new StructType().add("c", dataType)).get("fields").get(0).get("type")
}
