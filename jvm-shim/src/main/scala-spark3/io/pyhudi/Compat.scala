package io.pyhudi

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.pyhudi.HudiAnalysisException

/** What differs between the Spark lines, for Spark 3.5. */
private[pyhudi] object Compat {

  type Session = SparkSession

  def activeSession: Session = SparkSession.active

  /** The application's own session; no user of a server works with it. */
  def applicationSession: Session = SparkSession.getDefaultSession.getOrElse(activeSession)

  def conf: SQLConf = activeSession.sessionState.conf

  def newHadoopConf(): Configuration = activeSession.sessionState.newHadoopConf()

  /** Has `rule` see each statement before Spark's own rules rewrite it. */
  def injectFirst(extensions: SparkSessionExtensions, rule: Rule[LogicalPlan]): Unit =
    extensions.injectParser { (_, spark) =>
      HudiParser.over(
        spark,
        plan =>
          try rule(plan)
          catch { case cause: HudiAnalysisException => HudiRefused(cause) })
    }

  /** CALL, which Spark's parser does not know. */
  def injectCall(extensions: SparkSessionExtensions): Unit =
    extensions.injectParser(HudiCall.over(_, _))

  /** Whether `plan` calls a procedure where no catalog has any: Spark has no such plan. */
  def callsNothing(plan: LogicalPlan): Boolean = false

  /** The session's settings that Python uses: Hudi's, and Spark's mode of overwrites. Empty if no
    * session is active.
    */
  def hoodieSettings: Map[String, String] =
    SparkSession.getActiveSession.fold(Map.empty[String, String]) { session =>
      session.sessionState.conf.getAllConfs.filter { case (key, _) =>
        key.startsWith("hoodie.") || key == SQLConf.PARTITION_OVERWRITE_MODE.key
      }
    }
}
