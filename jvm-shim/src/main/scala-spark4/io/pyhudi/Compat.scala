package io.pyhudi

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.plans.logical.{Call, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.ProcedureCatalog
import org.apache.spark.sql.internal.SQLConf

/** What differs between the Spark lines, for Spark 4. */
private[pyhudi] object Compat {

  type Session = SparkSession

  def activeSession: Session = SparkSession.active

  /** The application's own session; no user of a server works with it. */
  def applicationSession: Session = SparkSession.getDefaultSession.getOrElse(activeSession)

  def conf: SQLConf = activeSession.sessionState.conf

  def newHadoopConf(): Configuration = activeSession.sessionState.newHadoopConf()

  /** Has `rule` see each statement before Spark's own rules rewrite it. */
  def injectFirst(extensions: SparkSessionExtensions, rule: Rule[LogicalPlan]): Unit =
    extensions.injectHintResolutionRule(_ => rule)

  /** Spark has CALL itself. */
  def injectCall(extensions: SparkSessionExtensions): Unit = ()

  /** Whether `plan` calls a procedure where the current catalog has none. */
  def callsNothing(plan: LogicalPlan): Boolean = plan match {
    case _: Call =>
      !activeSession.sessionState.catalogManager.currentCatalog.isInstanceOf[ProcedureCatalog]
    case _ => false
  }

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
