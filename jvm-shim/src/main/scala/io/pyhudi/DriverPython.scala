package io.pyhudi

import java.io.{File, IOException}
import java.nio.file.{Files, Path, Paths}

import scala.collection.JavaConverters._
import scala.util.Try

import org.apache.spark.SparkConf

/** Which Python a planner process runs with: the driver's. */
private[pyhudi] object DriverPython {

  /** The main class of a JVM that a Python program has started. */
  private val startedByPython = "org.apache.spark.api.python.PythonGatewayServer$"

  /** The program that started this JVM, if it is a Python; otherwise the one that is set. */
  def of(conf: SparkConf, environment: Map[String, String]): String =
    starter.getOrElse(set(conf, environment))

  /** What the settings name, in the same order as in spark-submit. */
  def set(conf: SparkConf, environment: Map[String, String]): String =
    conf.getOption("spark.pyspark.driver.python")
      .orElse(conf.getOption("spark.pyspark.python"))
      .orElse(environment.get("PYSPARK_DRIVER_PYTHON"))
      .orElse(environment.get("PYSPARK_PYTHON"))
      .getOrElse("python3")

  private def starter: Option[String] =
    if (isStartedByPython) Try(ProcessHandle.current.parent.get.pid).toOption.flatMap(programOf)
    else None

  private def isStartedByPython: Boolean =
    Thread.getAllStackTraces.values.asScala
      .exists(_.exists(at => at.getClassName == startedByPython && at.getMethodName == "main"))

  /** The program as it was called; Java would name the file behind a virtual environment. */
  private def programOf(pid: Long): Option[String] = {
    val facts = Paths.get("/proc", pid.toString)
    try {
      val called = new String(Files.readAllBytes(facts.resolve("cmdline"))).takeWhile(_ != '\u0000')
      val isPath = called.contains(File.separatorChar)
      val program =
        if (isPath) Files.readSymbolicLink(facts.resolve("cwd")).resolve(called).toString
        else called
      Some(program).filter(p => isPython(p) && (!isPath || Files.isExecutable(Paths.get(p))))
    } catch { case _: IOException => None } // not Linux
  }

  private def isPython(program: String): Boolean =
    Path.of(program).getFileName.toString.startsWith("python")
}
