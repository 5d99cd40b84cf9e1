/** A lock, for one contender. It is acquired and released by the same thread. */
interface Contender {
    /** Waits until it has it. */
    void acquire() throws Exception;

    /** Whether it was held until now, as far as the library says so. */
    boolean release() throws Exception;

    /** Gives back what the lock needed beside. */
    default void close() throws Exception {}
}
