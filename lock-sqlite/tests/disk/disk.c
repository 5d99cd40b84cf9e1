/* A disk that is full, read-only or slow as long as a flag file exists. It records how often a process waited for it, and how much of
   the log was synced. Loaded before the C library, by LD_PRELOAD. Locks and reads are not changed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* The path DISTLOCK_DISK with this suffix. */
static const char *flag(const char *suffix) {
    static __thread char path[4096];
    const char *start = getenv("DISTLOCK_DISK");
    snprintf(path, sizeof path, "%s%s", start ? start : "/nonexistent", suffix);
    return path;
}

static int says(const char *suffix) { return syscall(SYS_access, flag(suffix), F_OK) == 0; }

/* Whether a file belongs to the database. */
static int is_database(const char *path) {
    return strstr(path, "/locks.db") != NULL && strstr(path, "-processes") == NULL;
}

/* The path of an open file, or an empty string. */
static const char *path_of(int fd) {
    static __thread char path[4096];
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlink, link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return path;
}

/* Counts a wait for the disk, by the size of a file. */
static void waited(void) {
    int file = (int)syscall(SYS_openat, AT_FDCWD, flag(".waits"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (syscall(SYS_write, file, ".", 1) != 1) abort();
    syscall(SYS_close, file);
    if (says(".slow")) {
        struct timespec three = {3, 0};
        nanosleep(&three, NULL);
    }
}

static int kept(int fd) {
    waited();
    const char *path = path_of(fd);
    size_t length = strlen(path);
    struct stat found;
    int done = (int)syscall(SYS_fdatasync, fd);
    if (done == 0 && is_database(path) && length > 4 && strcmp(path + length - 4, "-wal") == 0 && fstat(fd, &found) == 0) {
        char digits[32];
        int file = (int)syscall(SYS_openat, AT_FDCWD, flag(".kept"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        int size = snprintf(digits, sizeof digits, "%lld", (long long)found.st_size);
        if (syscall(SYS_write, file, digits, size) != size) abort();
        syscall(SYS_close, file);
    }
    return done;
}

int fsync(int fd) { return kept(fd); }
int fdatasync(int fd) { return kept(fd); }

static ssize_t put(int fd, const void *bytes, size_t size, off_t at) {
    if (is_database(path_of(fd)) && says(".full")) { errno = ENOSPC; return -1; }
    return syscall(SYS_pwrite64, fd, bytes, size, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) { return put(fd, bytes, size, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t at) { return put(fd, bytes, size, at); }

static int opened(const char *path, int flags, mode_t mode) {
    if ((flags & O_ACCMODE) != O_RDONLY && is_database(path) && says(".readonly")) { errno = EROFS; return -1; }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* Pauses a process for a moment after it has created a socket, so that another process can act in between. The header has another type for
   the second argument. */
int bind(int fd, const void *address, unsigned length) {
    int done = (int)syscall(SYS_bind, fd, address, length), error = errno;
    if (says(".gap")) {
        struct timespec moment = {0, 50000000};
        nanosleep(&moment, NULL);
    }
    errno = error;
    return done;
}

#define OPEN(name)                              \
    int name(const char *path, int flags, ...) { \
        va_list rest;                           \
        va_start(rest, flags);                  \
        mode_t mode = va_arg(rest, mode_t);     \
        va_end(rest);                           \
        return opened(path, flags, mode);       \
    }
OPEN(open)
OPEN(open64)
