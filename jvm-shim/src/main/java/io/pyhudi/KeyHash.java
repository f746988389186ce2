package io.pyhudi;

/** The hash of the bucket index; SQL expressions call it through {@code java_method}. */
public final class KeyHash {

  private KeyHash() {}

  /** Java's hash of a text. Python decides how it becomes a bucket. */
  public static int of(String text) {
    return text.hashCode();
  }
}
