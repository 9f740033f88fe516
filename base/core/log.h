/*
 * The one logger: a line per event on stderr, text or JSON, safe from any thread (one write(2) a
 * line). While nobody reads stderr, lines are lost and counted rather than waited for. `part` is
 * the folder that speaks. Write a lower-case sentence, then key=value pairs:
 *
 *	log_info("meta", "connected to the hub url=%s services=%zu", url, n);
 *
 * What a peer can trigger goes through log_limited, which lets `per_minute` lines of one call site
 * through and then says how many were held back.
 */
#ifndef EDGEWAY_BASE_CORE_LOG_H
#define EDGEWAY_BASE_CORE_LOG_H

#include "base/core/util.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

struct log_limit {
	_Atomic uint64_t window; /* minute of CLOCK_MONOTONIC */
	_Atomic unsigned count;
	_Atomic unsigned held;
};

/* For all parts; forgets what log_part_level set. */
void log_setup(enum log_level level, enum log_format format);
/* Level of one part, "" all of them, from now on. -ENOENT: no part has this name. One thread at a
 * time. */
int log_part_level(const char *part, enum log_level level);
enum { LOG_PARTS_MAX = 32 };
/* The parts, ended with NULL. */
const char *const *log_parts(void);
enum log_level log_level_of(const char *part);
const char *log_level_name(enum log_level level);
/* Might any part speak at this level? A cheap first look; log_line asks for the part. */
bool log_enabled(enum log_level level);
enum log_format log_format_now(void);
/* "2026-01-31T23:59:59.999Z", as in front of every line; returns its length. */
enum { LOG_TIME_MAX = 40 };
size_t log_time(char to[LOG_TIME_MAX]);
/* What another side has said, fit to stand between quotes in a line: printable ASCII, '?' for all
 * else, quotes and backslashes too. size: of `to`, NUL and all; what is longer is cut. Returns
 * `to`. */
char *log_clean(char *to, size_t size, const char *from);
void log_line(enum log_level level, const char *part, const char *fmt, ...) printf_like(3, 4);
/* The last LOG_RECENT lines, the oldest first, whatever became of stderr; those of debug and the
 * audit's are left out. */
enum { LOG_RECENT = 256 };
struct log_event {
	const char *when, *level, *part, *text;
	size_t nth; /* of all that were ever kept, from 0 */
};
typedef void log_event_fn(void *arg, const struct log_event *event);
void log_recent(log_event_fn *fn, void *arg);
/* How many were ever kept: who has seen so many has missed none. */
size_t log_recent_kept(void);
/* True when this call may speak now; counts what is held back. */
bool log_limit_pass(struct log_limit *limit, unsigned per_minute, const char *part);

#define log_at(level, ...)                                                                         \
	do {                                                                                       \
		if (log_enabled(level))                                                            \
			log_line(level, __VA_ARGS__);                                              \
	} while (0)
#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_limited(level, per_minute, part, ...)                                                  \
	do {                                                                                       \
		static struct log_limit log_limit_;                                                \
		if (log_enabled(level) && (level) <= log_level_of(part) &&                         \
			log_limit_pass(&log_limit_, per_minute, part))                             \
			log_line(level, part, __VA_ARGS__);                                        \
	} while (0)

#endif
