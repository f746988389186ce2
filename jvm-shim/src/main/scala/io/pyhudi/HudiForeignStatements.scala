package io.pyhudi

import java.lang.reflect.{InvocationTargetException, Proxy}

import scala.util.matching.Regex

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.{DescribeColumn, LogicalPlan}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.pyhudi.HudiAnalysisException

/** Statements of other table formats that Spark cannot parse, and CALL without a catalog: they say
  * what to write here instead.
  *
  * Spark's own parser, or that of another extension, comes first. Spark takes `DESCRIBE HISTORY t`
  * for the column `t` of a table `history`, so it counts as unknown where there is no such table.
  */
private[pyhudi] object HudiForeignStatements {

  private val name = "((?:`[^`]+`|'[^']+'|\\w+)(?:\\.(?:`[^`]+`|\\w+))*)"
  private val Describe: Regex =
    s"(?is)\\s*DESC(?:RIBE)?\\s+(HISTORY|DETAIL)\\s+(?:TABLE\\s+)?$name.*".r
  private val Service: Regex = s"(?is)\\s*(OPTIMIZE|VACUUM|RESTORE)\\s+(?:TABLE\\s+)?$name.*".r

  private val Call: Regex = "(?is)\\s*CALL\\s+(?:system\\.)?(\\w+)\\s*\\(.*".r

  def over(session: SparkSession, spark: ParserInterface): ParserInterface =
    Proxy.newProxyInstance(
      getClass.getClassLoader,
      Array(classOf[ParserInterface]),
      (_, method, arguments) => {
        val all = Option(arguments).getOrElse(Array.empty[AnyRef])
        val statement = all.headOption.collect {
          case text: String if method.getName.startsWith("parsePlan") => text
        }
        try method.invoke(spark, all: _*) match {
            case column: DescribeColumn =>
              statement.filter(isUnknown(session, _)).flatMap(refused).getOrElse(column)
            case call: LogicalPlan if Compat.callsNothing(call) =>
              statement.filter(isOurs).flatMap(refused).getOrElse(call)
            case other => other
          }
        catch {
          case failure: InvocationTargetException => failure.getCause match {
              case cause: ParseException => statement.flatMap(refused).getOrElse(throw cause)
              case cause => throw cause
            }
        }
      }
    ).asInstanceOf[ParserInterface]

  private def refused(text: String): Option[HudiRefused] = advice(text).map { said =>
    HudiRefused(new HudiAnalysisException(s"[UNSUPPORTED_TABLE] $said", "UnsupportedTable"))
  }

  private def isUnknown(session: SparkSession, text: String): Boolean = text match {
    case Describe(word, _) => !session.catalog.tableExists(word)
    case _ => false
  }

  private def isOurs(text: String): Boolean = text match {
    case Call(name) => HudiCalls.has(name) || HudiCalls.insteadOf(name).isDefined
    case _ => false
  }

  private def advice(text: String): Option[String] = text match {
    case Describe(word, table) if word.equalsIgnoreCase("history") =>
      Some(s"DESCRIBE HISTORY is not a statement of Spark. For a Hudi table write: " +
        s"SELECT * FROM $table.history")
    case Describe(_, table) =>
      Some(s"DESCRIBE DETAIL is not a statement of Spark. For a Hudi table write: " +
        s"SELECT * FROM $table.files for its files, SHOW TBLPROPERTIES $table for its settings. " +
        "The command `pyhudi show PATH` prints both.")
    case Service(word, table) => Some(instead(word.toUpperCase, table))
    case Call(name) if HudiCalls.has(name) =>
      Some(s"CALL $name names no catalog. For a Hudi table write: " +
        s"CALL pyhudi.system.$name(table => '<table>')")
    case Call(name) => Some(HudiCalls.unknown(name))
    case _ => None
  }

  private def instead(word: String, table: String): String = {
    def ours(call: String, python: String) =
      s"$word is not a statement of Spark. For a Hudi table write: CALL pyhudi.system.$call; " +
        s"in Python it is $python. "
    word match {
      case "OPTIMIZE" =>
        ours(s"cluster(table => '$table')", "pyhudi.cluster(path, spark=spark)") +
          "Its options hoodie.clustering.plan.strategy.* say which files and in what order"
      case "VACUUM" =>
        ours(s"clean(table => '$table')", "pyhudi.clean(path)") +
          "Its option hoodie.clean.policy says what is kept"
      case _ =>
        ours(s"restore('$table', '<instant>')", "pyhudi.restore(path, instant)") +
          "It deletes the later commits for good. To keep them: INSERT OVERWRITE " +
          s"$table SELECT * FROM $table TIMESTAMP AS OF '<instant>'. The instants are in " +
          s"$table.history"
    }
  }
}

/** A statement that fails with `cause` and does nothing: parsers throw no error but their own. */
private[pyhudi] case class HudiRefused(cause: HudiAnalysisException) extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = throw cause
}
