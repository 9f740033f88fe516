/*
 * Small helpers for every file: allocation that cannot fail, cleanup attributes, clocks.
 *
 * Running out of memory aborts with a message; callers never check. Scoped resources carry a
 * cleanup attribute and are handed over with take_ptr / take_fd, which leave NULL / -1 behind:
 *
 *	auto_free char *path = xasprintf("%s/ca.pem", dir);
 *	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
 *	return take_fd(&fd);
 */
#ifndef EDGEWAY_BASE_CORE_UTIL_H
#define EDGEWAY_BASE_CORE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
/* Both evaluate each argument once. The arguments are of one signedness. */
#define MIN(a, b) CHOOSE_(<, a, b, __COUNTER__)
#define MAX(a, b) CHOOSE_(>, a, b, __COUNTER__)
#define CHOOSE_(op, a, b, id) CHOOSE_NAMED_(op, a, b, id)
#define CHOOSE_NAMED_(op, a, b, id)                                                                \
	({                                                                                         \
		__auto_type choose_a_##id = (a);                                                   \
		__auto_type choose_b_##id = (b);                                                   \
		choose_a_##id op choose_b_##id ? choose_a_##id : choose_b_##id;                    \
	})
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define printf_like(fmt, first) __attribute__((format(printf, fmt, first)))

#define auto_free __attribute__((cleanup(cleanup_free)))
#define auto_fd __attribute__((cleanup(cleanup_fd)))

/* Hands over the resource in *p and leaves *p empty. */
#define take_ptr(p)                                                                                \
	({                                                                                         \
		__typeof__(p) take_p_ = (p);                                                       \
		__typeof__(*take_p_) take_v_ = *take_p_;                                           \
		*take_p_ = NULL;                                                                   \
		take_v_;                                                                           \
	})
int take_fd(int *fd);

void cleanup_free(void *p);
void cleanup_fd(int *fd);

void *xmalloc(size_t size);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
void *xmemdup(const void *p, size_t n);
char *xasprintf(const char *fmt, ...) printf_like(1, 2);
/* For qsort and bsearch of an array of texts. */
int compare_texts(const void *a, const void *b);

/* CLOCK_MONOTONIC and CLOCK_REALTIME in milliseconds. On a loop prefer loop_now_ms(). */
uint64_t mono_ms(void);
/* CLOCK_MONOTONIC in microseconds: for how long a turn has taken so far. */
uint64_t mono_us(void);
uint64_t wall_ms(void);

/* Cryptographically good random bytes (getrandom); never fails. */
void random_bytes(void *p, size_t n);

/* Read at most `limit` bytes of a file into a NUL-terminated heap buffer; *len (may be NULL)
 * without the NUL. Returns 0 or -errno; -EFBIG when the file is larger than limit. */
int file_read(const char *path, size_t limit, char **data, size_t *len);

/* The text without a byte order mark at its begin and white space at both ends; cut in place. */
char *text_strip(char *text);

/* If path is a folder: its file `name`, or `other` if `name` does not exist. Otherwise the path
 * itself. On the heap. */
char *file_in(const char *path, const char *name, const char *other);

/* Replace a file atomically: temporary file in the same folder, fsync, rename. 0 or -errno. */
int file_write(const char *path, const void *data, size_t len, unsigned mode);
/* The same, but a crash may bring the former file back until file_sync_folder: for many files. */
int file_replace(const char *path, const void *data, size_t len, unsigned mode);
/* Appends, and syncs the file; what cannot be appended whole is taken back. 0 or -errno. */
int file_append(const char *path, const void *data, size_t len, unsigned mode);
/* Syncs the folder that the file is in. */
void file_sync_folder(const char *path);

/* Create a folder and its missing parents. 0 or -errno. */
int mkdir_p(const char *path, unsigned mode);

enum { TEXT_DISTANCE_MAX = 128 };
/* Levenshtein's distance without regard to case; of longer texts the first TEXT_DISTANCE_MAX bytes
 * count. */
unsigned text_distance(const char *a, const char *b);

#endif
