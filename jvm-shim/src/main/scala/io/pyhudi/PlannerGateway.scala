package io.pyhudi

import java.net.InetAddress
import java.util.concurrent.CompletableFuture
import javax.net.SocketFactory

import org.apache.spark.SparkContext
import org.apache.spark.api.java.JavaSparkContext
import py4j.{CallbackClient, JavaServer, Py4JPythonClient, PythonClient}

/** What a planner process finds in this JVM: the application, and where to register itself.
  *
  * Python calls all public methods, by the gateway's entry point.
  */
private[pyhudi] final class PlannerEntry(spark: SparkContext) {

  private[pyhudi] val registered = new CompletableFuture[(Planner, String)]

  /** The application's context, which PySpark cannot stop: it would where its own set-up fails. */
  def context: JavaSparkContext = new JavaSparkContext(spark) {
    override def stop(): Unit = ()
  }

  /** The session that belongs to nobody: asking it changes no session of a user. */
  val session: Compat.Session = Compat.applicationSession

  /** The session whose statement asks, on the thread that it asks on. */
  def asking: Compat.Session = Compat.activeSession

  /** Whether the statement that asks on this thread was cancelled, which Spark does by an
    * interrupt.
    */
  def isCancelled: Boolean = Thread.currentThread.isInterrupted

  def protocol: String = Protocol.version

  /** @throws HudiAnalysisException where Python's protocol is of another version than the jar's */
  def register(planner: Planner, secret: String, version: String): Unit = {
    Bridge.requireVersion(version)
    registered.complete(planner -> secret)
    ()
  }
}

/** The server by which one planner process calls this JVM, and the client that calls it.
  *
  * Both ends listen on the loopback only, and a connection to either begins with `token`. A
  * question and the calls that Python makes to answer it share one connection and one thread on
  * each side.
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
    // The server's threads take after the one that starts them: they must neither keep the JVM
    // alive nor inherit the session, the job group or the class loader of the first to ask.
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
    * py4j would keep it, and a thread in Python, for as long as the process lives: a server that
    * runs each statement on a thread of its own would run out of both.
    */
  def asking[T](question: => T): T = client match {
    case tokens: TokenClient if tokens.getPerThreadConnection == null =>
      try question
      finally tokens.closeThreadConnection()
    case _ => question
  }

  /** True where this thread has asked already, and Python's answer makes it ask again. */
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

/** py4j's client with a token that stays when Python tells the port that it listens on. */
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
