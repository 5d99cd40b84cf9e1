/** A lock, for one contender. It is acquired and released by the same thread. */
interface Contender {
    /** Waits until the lock is held. */
    void acquire() throws Exception;

    /** Whether the lock was still held, as far as the library tells. */
    boolean release() throws Exception;

    /** Releases what else the lock needed, such as a lease. */
    default void close() throws Exception {}
}
