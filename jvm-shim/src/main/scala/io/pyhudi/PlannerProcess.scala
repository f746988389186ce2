package io.pyhudi

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.security.SecureRandom
import java.util.Base64
import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, TimeUnit, TimeoutException}
import java.util.concurrent.atomic.AtomicLong

import scala.util.control.NonFatal

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.sql.pyhudi.{HudiAnalysisException, ListenerBus}

/** The planner in a separate Python process, for a JVM that no Python driver has attached to.
  *
  * The process ends when its stdin ends, so it does not outlive the application: if this JVM is
  * killed, the kernel closes stdin. After its end this object answers no more questions, and
  * `Bridge` starts another one.
  */
private[pyhudi] final class PlannerProcess private (
    context: SparkContext,
    process: Process,
    gateway: PlannerGateway,
    output: ProcessOutput) {

  val pid: Long = process.pid

  /** The running questions: the waiting thread, by the tag of the Spark jobs for the answer. */
  private val asked = new ConcurrentHashMap[String, Thread]
  private val count = new AtomicLong
  @volatile private var isRetired = false

  def isAlive: Boolean = process.isAlive && !context.isStopped

  /** Runs a question; if the process ends, the Spark jobs that it started for the answer end. */
  def asking[T](question: => T): T =
    if (gateway.isAsking) question
    else {
      val tag = s"pyhudi-planner-$pid-${count.incrementAndGet()}"
      context.addJobTag(tag)
      asked.put(tag, Thread.currentThread)
      try gateway.asking(question)
      finally {
        asked.remove(tag)
        context.removeJobTag(tag)
        if (isRetired && asked.isEmpty) end()
      }
    }

  /** Ends the process, or lets it first answer what it is asked: another planner has its place. */
  def retire(): Unit = {
    isRetired = true
    if (asked.isEmpty) end()
  }

  def end(): Unit = {
    try process.getOutputStream.close()
    catch { case _: IOException => () }
    if (!process.waitFor(PlannerProcess.endSeconds, TimeUnit.SECONDS)) process.destroyForcibly()
    ()
  }

  /** Whether the process has ended; its connection breaks a moment earlier, so this waits. */
  def hasEnded: Boolean = process.waitFor(1, TimeUnit.SECONDS)

  /** How the process ended, for the statement that waited for it. */
  def obituary: String =
    if (hasEnded) PlannerProcess.ended(process, output)
    else s"it runs (pid $pid), but its connection broke"

  private def started(): Unit = {
    val watch = new Thread(null, () => watched(), "pyhudi-planner-watch", 0, false)
    watch.setDaemon(true)
    watch.start()
    ListenerBus.onApplicationEnd(context)(end())
  }

  /** Runs until the process ends. Spark cancels a statement by an interrupt, which does not wake a
    * thread that waits for Python. So this ends the Spark jobs that Python waits for.
    */
  private def watched(): Unit = {
    while (!process.waitFor(PlannerProcess.watchMs, TimeUnit.MILLISECONDS)) cancel(_.isInterrupted)
    cancel(_ => true)
    gateway.close()
  }

  private def cancel(which: Thread => Boolean): Unit = asked.forEach { (tag, thread) =>
    if (which(thread) && !context.isStopped) context.cancelJobsWithTag(tag)
  }
}

private[pyhudi] object PlannerProcess {

  private val module = "pyhudi.spark.gateway"
  private val startSeconds = 120L
  private val endSeconds = 3L
  private val watchMs = 200L
  private val tokenBytes = 32

  /** Starts the process for an application and waits until it has registered. */
  def start(context: SparkContext, python: String): (PlannerProcess, Planner, String) = {
    val token = freshToken()
    val entry = new PlannerEntry(context)
    val gateway = new PlannerGateway(entry, token)
    val port = gateway.start()
    var process: Option[Process] = None
    try {
      process = Some(launched(python, context.getConf))
      val output = new ProcessOutput(process.get)
      greet(process.get, port, token)
      val (planner, secret) = registered(entry, process.get, output, python)
      val running = new PlannerProcess(context, process.get, gateway, output)
      running.started()
      (running, planner, secret)
    } catch {
      case failure: Throwable =>
        process.foreach(_.destroyForcibly())
        gateway.close()
        throw failure
    }
  }

  private def launched(python: String, conf: SparkConf): Process = {
    val builder = new ProcessBuilder(python, "-m", module).redirectErrorStream(true)
    // As in spark-submit for a Python program: this variable names the Python of its workers.
    conf.getOption("spark.pyspark.python")
      .foreach(builder.environment.put("PYSPARK_PYTHON", _))
    try builder.start()
    catch {
      case cause: IOException => throw notStarted(python, cause.getMessage)
    }
  }

  private def greet(process: Process, port: Int, token: String): Unit = {
    val line = Json.render(Map("port" -> port, "token" -> token)) + "\n"
    try {
      process.getOutputStream.write(line.getBytes(UTF_8))
      process.getOutputStream.flush()
    } catch { case _: IOException => () } // it has ended: `registered` says why
  }

  private def registered(
      entry: PlannerEntry,
      process: Process,
      output: ProcessOutput,
      python: String): (Planner, String) = {
    try
      CompletableFuture.anyOf(entry.registered, process.onExit()).get(
        startSeconds,
        TimeUnit.SECONDS)
    catch {
      case _: TimeoutException =>
        throw notStarted(python, s"it was not ready after $startSeconds seconds")
    }
    if (!entry.registered.isDone) throw notStarted(python, ended(process, output))
    entry.registered.get
  }

  private def notStarted(python: String, why: String) = new HudiAnalysisException(
    s"[SETUP_ERROR] pyhudi's Python process did not start with '$python': $why. Install pyhudi " +
      "for that Python, or name another one by spark.pyspark.driver.python or " +
      "PYSPARK_DRIVER_PYTHON; the next statement tries again.",
    "SetupError"
  )

  private def ended(process: Process, output: ProcessOutput): String = {
    val code = process.exitValue
    // Java follows the shell's convention for a process that a signal ended.
    if (code > 128) s"signal ${code - 128} ended it"
    else
      output.lastLine.fold(s"it ended with exit code $code") { line =>
        s"it ended with exit code $code, and its last line was: $line"
      }
  }

  private def freshToken(): String = {
    val bytes = new Array[Byte](tokenBytes)
    new SecureRandom().nextBytes(bytes)
    Base64.getUrlEncoder.withoutPadding().encodeToString(bytes)
  }
}

/** Prints the output of a process, and keeps its end for error messages. */
private[pyhudi] final class ProcessOutput(process: Process) {

  private val keptBytes = 4096
  private val shownCharacters = 400
  @volatile private var end = Array.emptyByteArray

  private val pump = new Thread(null, () => pass(), "pyhudi-planner-output", 0, false)
  pump.setDaemon(true)
  pump.start()

  /** The last non-empty line of a process that has ended. */
  def lastLine: Option[String] = {
    pump.join(1000)
    new String(end, UTF_8).linesIterator.map(_.trim).filter(_.nonEmpty).toSeq.lastOption
      .map(_.takeRight(shownCharacters).stripSuffix("."))
  }

  private def pass(): Unit = {
    val buffer = new Array[Byte](keptBytes)
    try
      Iterator.continually(process.getInputStream.read(buffer)).takeWhile(_ >= 0).foreach { count =>
        System.err.write(buffer, 0, count)
        end = (end ++ buffer.take(count)).takeRight(keptBytes)
      }
    catch { case NonFatal(_) => () }
  }
}
