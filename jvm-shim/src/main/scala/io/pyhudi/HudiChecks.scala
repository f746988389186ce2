package io.pyhudi

import scala.util.Try

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{Expression, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.pyhudi.HudiAnalysisException

/** Refuses an UPDATE or MERGE that Spark takes, although it would lose a part of what it says.
  *
  * Spark leaves out what it does not know, or rewrites the statement, before rules of others see it
  * resolved. So this rule takes it as it was parsed, and resolves a table only where there is
  * something to check.
  */
private[pyhudi] object HudiChecks extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case update: UpdateTable =>
        requireOwnColumns(update.table, update.assignments)
      case merge: MergeIntoTable =>
        val actions =
          merge.matchedActions ++ merge.notMatchedActions ++ merge.notMatchedBySourceActions
        requireOwnColumns(merge.targetTable, actions.flatMap(assigned))
        if (isEvolving(merge)) requireColumns(merge)
      case _ =>
    }
    plan
  }

  private def resolved(plan: LogicalPlan): Option[LogicalPlan] =
    if (plan.resolved) Some(plan)
    // What cannot be resolved Spark tells by itself, of the whole statement.
    else Try(Compat.activeSession.sessionState.analyzer.execute(plan)).toOption.filter(_.resolved)

  private def hudi(target: LogicalPlan): Option[DataSourceV2Relation] =
    resolved(target).flatMap(_.collectFirst {
      case relation: DataSourceV2Relation if relation.table.isInstanceOf[HudiCatalogTable] =>
        relation
    })

  // ---- columns that users cannot set

  private def assigned(action: MergeAction): Seq[Assignment] = action match {
    case update: UpdateAction => update.assignments
    case insert: InsertAction => insert.assignments
    case _ => Nil
  }

  private def nameParts(column: Expression): Seq[String] = column match {
    case unresolved: UnresolvedAttribute => unresolved.nameParts
    case named: NamedExpression => Seq(named.name)
    case _ => Nil
  }

  private def requireOwnColumns(target: LogicalPlan, assignments: Seq[Assignment]): Unit = {
    val hidden = assignments.map(each => nameParts(each.key))
      .filter(_.lastOption.exists(HudiColumns.isHidden))
    if (hidden.nonEmpty) hudi(target).foreach { relation =>
      // A field of a struct may have any name: then a column of the table is named before it.
      def isOwn(part: String) = relation.output.exists(c => Compat.conf.resolver(c.name, part))
      hidden.find(!_.exists(isOwn)).foreach { parts =>
        throw new HudiAnalysisException(
          s"[CONFIG_ERROR] ${parts.last} of ${relation.name} cannot be set: each write fills " +
            "Hudi's own columns itself. Nothing was written. Leave it out.",
          "ConfigError"
        )
      }
    }
  }

  // ---- MERGE WITH SCHEMA EVOLUTION

  /** Spark has the clause since 4.0, and passes over it where a table does not evolve by it. */
  private def isEvolving(merge: MergeIntoTable): Boolean =
    merge.getClass.getMethods.find(_.getName == "withSchemaEvolution")
      .exists(_.invoke(merge) == java.lang.Boolean.TRUE)

  private def requireColumns(merge: MergeIntoTable): Unit =
    for (target <- hudi(merge.targetTable); source <- resolved(merge.sourceTable)) {
      val more = source.output
        .filterNot(column => target.output.exists(c => Compat.conf.resolver(c.name, column.name)))
      if (more.nonEmpty) {
        val columns = more.map(c => s"${c.name} ${c.dataType.sql}").mkString(", ")
        throw new HudiAnalysisException(
          s"[UNSUPPORTED_TABLE] WITH SCHEMA EVOLUTION does not add columns to ${target.name}, so " +
            s"the values of ${more.map(_.name).mkString(", ")} would be lost. Nothing was " +
            s"written. First run ALTER TABLE ${target.name} ADD COLUMNS ($columns), or leave " +
            "them out of the source.",
          "UnsupportedTable"
        )
      }
    }
}
