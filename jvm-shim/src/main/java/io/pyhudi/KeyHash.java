package io.pyhudi;

/** The hash of the bucket index, which SQL expressions reach through {@code java_method}. */
public final class KeyHash {

  private KeyHash() {}

  /** Java's own hash of a text. How buckets are made of it is decided in Python. */
  public static int of(String text) {
    return text.hashCode();
  }
}
