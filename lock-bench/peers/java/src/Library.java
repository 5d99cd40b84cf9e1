import java.util.List;

/** A library, connected to its server. */
interface Library {
    /** A lock for one contender; `role` is mutex, read, write or permit. */
    Contender lock(String name, String role) throws Exception;

    /** What it can be asked for, beside `mutex`. */
    default List<String> kinds() {
        return List.of("mutex");
    }

    String version();
}
