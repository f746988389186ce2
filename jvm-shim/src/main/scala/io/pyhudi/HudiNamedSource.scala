package io.pyhudi

import org.apache.spark.sql.pyhudi.HudiAnalysisException

/** `format("hudi")` and `USING hudi`, by Apache Hudi's own name.
  *
  * The name is Apache Hudi's wherever its bundle is on the class path. Elsewhere pyhudi serves it
  * if the setting asks for that; otherwise the error says so, where Spark would say that it knows
  * no such source.
  */
final class HudiNamedSource extends HudiDataSource {

  /** Spark asks each source for its name at each look-up. Two of one name would be an error. */
  override def shortName(): String =
    if (HudiNamedSource.isFree) HudiMetastore.provider else "pyhudi_as_hudi"

  override protected def requireServed(): Unit = HudiNamedSource.requireServed()
}

private[pyhudi] object HudiNamedSource {

  val setting = "spark.pyhudi.as.hudi"

  /** Whether pyhudi serves the name in the active session. */
  def isServed: Boolean = isFree && Compat.conf.getConfString(setting, "false").toBoolean

  private def isFree: Boolean =
    try {
      Class.forName(
        "org.apache.hudi.BaseDefaultSource",
        false,
        Thread.currentThread.getContextClassLoader)
      false
    } catch { case _: ClassNotFoundException => true }

  def requireServed(): Unit =
    if (isFree && !isServed) throw new HudiAnalysisException(
      "[CONFIG_ERROR] Apache Hudi's bundle is not on the class path, so nobody serves the source " +
        "'hudi' here. Write format(\"pyhudi\") or USING pyhudi. Or let pyhudi serve that name " +
        s"too: set $setting to true, or call pyhudi.configure(builder, as_hudi=True).",
      "ConfigError"
    )
}
