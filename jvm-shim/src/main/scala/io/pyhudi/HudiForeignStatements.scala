package io.pyhudi

import java.lang.reflect.{InvocationTargetException, Proxy}

import scala.util.matching.Regex

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.{DescribeColumn, LogicalPlan}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.pyhudi.HudiAnalysisException

/** Statements of other table formats that Spark cannot parse: they say what to write here instead.
  *
  * Spark's own parser, or that of another extension, comes first. Spark takes `DESCRIBE HISTORY t`
  * for the column `t` of a table `history`, so it counts as unknown where there is no such table.
  */
private[pyhudi] object HudiForeignStatements {

  private val name = "((?:`[^`]+`|'[^']+'|\\w+)(?:\\.(?:`[^`]+`|\\w+))*)"
  private val Describe: Regex =
    s"(?is)\\s*DESC(?:RIBE)?\\s+(HISTORY|DETAIL)\\s+(?:TABLE\\s+)?$name.*".r
  private val Service: Regex = s"(?is)\\s*(OPTIMIZE|VACUUM|RESTORE)\\s+(?:TABLE\\s+)?$name.*".r

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

  private def advice(text: String): Option[String] = text match {
    case Describe(word, table) if word.equalsIgnoreCase("history") =>
      Some(s"DESCRIBE HISTORY is not a statement of Spark. For a Hudi table write: " +
        s"SELECT * FROM $table.history")
    case Describe(_, table) =>
      Some(s"DESCRIBE DETAIL is not a statement of Spark. For a Hudi table write: " +
        s"SELECT * FROM $table.files for its files, SHOW TBLPROPERTIES $table for its settings. " +
        "The command `pyhudi show PATH` prints both.")
    case Service(word, table) => Some(instead(word.toUpperCase, table))
    case _ => None
  }

  private def instead(word: String, table: String): String = {
    def hudis(what: String, call: String) =
      s"$word is not a statement of Spark, and pyhudi does not $what yet. Apache Hudi does it on " +
        s"the same table, in a session with its bundle: CALL $call(table => '$table')"
    word match {
      case "OPTIMIZE" => hudis("rewrite small files", "run_clustering")
      case "VACUUM" => hudis("delete old versions of files", "run_clean")
      case _ =>
        s"RESTORE is not a statement of Spark. For a Hudi table write: INSERT OVERWRITE $table " +
          s"SELECT * FROM $table TIMESTAMP AS OF '<instant>'. Its instants are in $table.history"
    }
  }
}

/** A statement that fails with `cause` and does nothing: parsers throw no error but their own. */
private[pyhudi] case class HudiRefused(cause: HudiAnalysisException) extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = throw cause
}
