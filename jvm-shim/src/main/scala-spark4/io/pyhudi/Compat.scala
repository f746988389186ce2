package io.pyhudi

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.internal.SQLConf

/** What differs between the Spark lines; this is Spark 4's side. */
private[pyhudi] object Compat {

  type Session = SparkSession

  def activeSession: Session = SparkSession.active

  /** The application's own session, which no user of a server works with. */
  def applicationSession: Session = SparkSession.getDefaultSession.getOrElse(activeSession)

  def conf: SQLConf = activeSession.sessionState.conf

  def newHadoopConf(): Configuration = activeSession.sessionState.newHadoopConf()

  /** The session's settings that Python heeds: Hudi's, and Spark's for what an overwrite replaces.
    * Empty where no session is active.
    */
  def hoodieSettings: Map[String, String] =
    SparkSession.getActiveSession.fold(Map.empty[String, String]) { session =>
      session.sessionState.conf.getAllConfs.filter { case (key, _) =>
        key.startsWith("hoodie.") || key == SQLConf.PARTITION_OVERWRITE_MODE.key
      }
    }
}
