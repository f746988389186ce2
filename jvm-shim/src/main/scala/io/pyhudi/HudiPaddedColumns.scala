package io.pyhudi

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{Assignment, Command, LogicalPlan, Project}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** Statements whose table has columns of type CHAR, which Spark pads when it reads them.
  *
  * Spark 3.5 pads by a projection over the table, also where a statement changes this table, and
  * then does not find it. The statement gets the table itself, and its expressions the padding.
  */
private[pyhudi] object HudiPaddedColumns {

  /** `statement` without a projection over its table `target`; the same if there is none. */
  def moved(statement: Command, target: LogicalPlan): LogicalPlan =
    target.collectFirst {
      case found @ Project(columns, _: DataSourceV2Relation)
          if columns.exists(_.isInstanceOf[Alias]) => found
    }
      .fold[LogicalPlan](statement) { padding =>
        val bare = target.transformUp { case found if found eq padding => padding.child }
        statement
          .mapChildren(child => if (child eq target) bare else child)
          .mapExpressions(padded(_, padding))
      }

  private def padded(expression: Expression, padding: Project): Expression = {
    val values = padding.projectList.collect { case made: Alias => made.exprId -> made.child }.toMap
    expression.transformDown {
      // What is assigned to is the table's own column.
      case Assignment(key: Attribute, value) if values.contains(key.exprId) =>
        Assignment(values(key.exprId).references.head, value)
      case column: Attribute if values.contains(column.exprId) => values(column.exprId)
    }
  }
}
