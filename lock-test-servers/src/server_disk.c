/* The disk of one process is full as long as a file says so: no file below one folder takes a byte. What is there can be read, made empty and
   removed, and what is elsewhere is written as ever. Loaded before the C library, by LD_PRELOAD. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static const volatile int64_t *full;
static const char *folder;

__attribute__((constructor)) static void read_variables(void) {
    const char *path = getenv("DISTLOCK_SERVER_DISK"), *below = getenv("DISTLOCK_SERVER_DISK_FOLDER");
    int file = path && below ? open(path, O_RDONLY) : -1;
    void *there;
    if (file < 0) return;
    there = mmap(NULL, sizeof *full, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    folder = strdup(below);
    if (there != MAP_FAILED && folder) full = there;
}

/* Whether an open file is below the folder, and the disk is full. */
static int is_refused(int fd) {
    char link[64], path[4096];
    size_t length;
    ssize_t size;
    if (!full || !*full) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof path);
    length = strlen(folder);
    if (size <= (ssize_t)length || memcmp(path, folder, length) != 0 || path[length] != '/') return 0;
    errno = ENOSPC;
    return 1;
}

ssize_t write(int fd, const void *bytes, size_t size) {
    return is_refused(fd) ? -1 : syscall(SYS_write, fd, bytes, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    return is_refused(fd) ? -1 : syscall(SYS_writev, fd, parts, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
    return is_refused(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, size, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t at) {
    return is_refused(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, size, at);
}
