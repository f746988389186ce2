package io.pyhudi;

/**
 * The one interface between Spark's roles in the JVM and pyhudi's control plane in Python.
 *
 * <p>Python implements it and registers the object with {@link Bridge}. Requests and answers are
 * JSON text; an answer is the envelope {@code {"ok": value}} or {@code {"error": {...}}}, as
 * Python's spark/protocol.py defines them. Python makes a secret for its session and refuses calls
 * without it, since the callback socket itself has no token.
 */
public interface Planner {

  /** Asks {@code method} with the arguments in {@code json}. */
  String call(String secret, String method, String json);

  /** The same with a JVM object, such as a DataFrame, which Python wraps. */
  String callWith(String secret, String method, Object jvmObject, String json);
}
