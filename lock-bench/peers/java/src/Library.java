import java.util.List;

/** A library, connected to its server. */
interface Library {
    /** A lock for one contender; `role` is mutex, read, write or permit. */
    Contender lock(String name, String role) throws Exception;

    /** The kinds of lock that it has. */
    default List<String> kinds() {
        return List.of("mutex");
    }

    String version();
}
