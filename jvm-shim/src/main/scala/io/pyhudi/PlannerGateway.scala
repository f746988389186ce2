package io.pyhudi

import java.net.InetAddress
import java.util.concurrent.CompletableFuture
import javax.net.SocketFactory

import org.apache.spark.SparkContext
import org.apache.spark.api.java.JavaSparkContext
import py4j.{CallbackClient, JavaServer, Py4JPythonClient, PythonClient}

/** This JVM for a planner process: the application, and the place to register.
  *
  * Python calls all public methods through the gateway's entry point.
  */
private[pyhudi] final class PlannerEntry(spark: SparkContext) {

  private[pyhudi] val registered = new CompletableFuture[(Planner, String)]

  /** The application's context. PySpark cannot stop it, as it would after a failed set-up. */
  def context: JavaSparkContext = new JavaSparkContext(spark) {
    override def stop(): Unit = ()
  }

  /** A session of no user: questions to it change no user's session. */
  val session: Compat.Session = Compat.applicationSession

  /** The session whose statement asks on this thread. */
  def asking: Compat.Session = Compat.activeSession

  /** Whether the statement that asks on this thread was cancelled: Spark interrupts its thread. */
  def isCancelled: Boolean = Thread.currentThread.isInterrupted

  def protocol: String = Protocol.version

  /** @throws HudiAnalysisException if Python's protocol has another version than the jar's */
  def register(planner: Planner, secret: String, version: String): Unit = {
    Bridge.requireVersion(version)
    registered.complete(planner -> secret)
    ()
  }
}

/** The server for one planner process, and the client that calls this process.
  *
  * Both listen only on the loopback interface, and each connection begins with `token`. A question
  * and the calls that Python makes to answer it share one connection and one thread on each side.
  */
private[pyhudi] final class PlannerGateway(entry: PlannerEntry, token: String) {

  private val server = {
    val unknownYet = new TokenClient(0, PlannerGateway.loopback, token)
    val server = new JavaServer(entry, 0, 0, 0, null, unknownYet, token)
    unknownYet.setGateway(server.getGateway)
    unknownYet.setJavaServer(server)
    server
  }

  /** The port on the loopback. */
  def start(): Int = {
    // The server's threads inherit from the thread that starts them: they must neither keep the JVM
    // alive nor get the session, the job group or the class loader of the first question.
    val starter =
      new Thread(null, () => server.start(true), "pyhudi-gateway", 0, false)
    starter.setDaemon(true)
    starter.setContextClassLoader(getClass.getClassLoader)
    starter.start()
    starter.join()
    server.getListeningPort
  }

  /** Asks Python; the connection that this opens for the thread is closed afterwards.
    *
    * py4j would keep it, and a thread in Python, until the process ends. A server that runs each
    * statement on a new thread would run out of both.
    */
  def asking[T](question: => T): T = client match {
    case tokens: TokenClient if tokens.getPerThreadConnection == null =>
      try question
      finally tokens.closeThreadConnection()
    case _ => question
  }

  /** True if this thread has already asked, and Python's answer makes it ask again. */
  def isAsking: Boolean = client match {
    case tokens: TokenClient => tokens.getPerThreadConnection != null
    case _ => false
  }

  def close(): Unit = server.shutdown()

  private def client: Py4JPythonClient = server.getCallbackClient
}

private[pyhudi] object PlannerGateway {
  val loopback: InetAddress = InetAddress.getByName("127.0.0.1")
}

/** py4j's client; it keeps its token when Python reports the port that it listens on. */
private[pyhudi] final class TokenClient(toPort: Int, host: InetAddress, token: String)
    extends PythonClient(
      null,
      null,
      toPort,
      host,
      CallbackClient.DEFAULT_MIN_CONNECTION_TIME,
      CallbackClient.DEFAULT_MIN_CONNECTION_TIME_UNIT,
      SocketFactory.getDefault,
      null,
      true,
      0,
      token
    ) {

  override def copyWith(otherHost: InetAddress, otherPort: Int): Py4JPythonClient = {
    val copy = new TokenClient(otherPort, otherHost, token)
    copy.setGateway(getGateway)
    copy.setJavaServer(getJavaServer)
    copy
  }

  def closeThreadConnection(): Unit = Option(getPerThreadConnection).foreach { connection =>
    lock.lock()
    try connections.remove(connection)
    finally lock.unlock()
    connection.shutdown()
    setPerThreadConnection(null)
  }
}
