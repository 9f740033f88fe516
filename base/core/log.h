/*
 * The logger: writes one line per event to stderr, as text or JSON, from any thread (one write(2)
 * per line). While stderr blocks, lines are dropped and counted; callers do not wait. `part` is the
 * folder that logs. Write a lower-case sentence, then key=value pairs:
 *
 *	log_info("meta", "connected to the hub url=%s services=%zu", url, n);
 *
 * Use log_limited for whatever a peer can trigger: it passes `per_minute` lines of one call site
 * and then says how many it suppressed.
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

/* Sets the level of all parts; discards what log_part_level set. */
void log_setup(enum log_level level, enum log_format format);
/* Sets the level of one part, or of all with "". -ENOENT: no part has this name. One thread at a
 * time. */
int log_part_level(const char *part, enum log_level level);
enum { LOG_PARTS_MAX = 32 };
/* The names of the parts, ended by NULL. */
const char *const *log_parts(void);
enum log_level log_level_of(const char *part);
const char *log_level_name(enum log_level level);
/* Might any part log at this level? A cheap first check; log_line then checks the part. */
bool log_enabled(enum log_level level);
enum log_format log_format_now(void);
/* "2026-01-31T23:59:59.999Z", as in front of every line; returns its length. */
enum { LOG_TIME_MAX = 40 };
size_t log_time(char to[LOG_TIME_MAX]);
/* Makes a peer's text fit to stand between quotes in a log line: printable ASCII, '?' for
 * everything else including quotes and backslashes. size: of `to`, with NUL; longer text is cut.
 * Returns `to`. */
char *log_clean(char *to, size_t size, const char *from);
void log_line(enum log_level level, const char *part, const char *fmt, ...) printf_like(3, 4);
/* The last LOG_RECENT lines, oldest first, kept even when stderr lost them; debug and audit lines
 * are left out. */
enum { LOG_RECENT = 256 };
struct log_event {
	const char *when, *level, *part, *text;
	size_t nth; /* number among all lines ever kept, from 0 */
};
typedef void log_event_fn(void *arg, const struct log_event *event);
void log_recent(log_event_fn *fn, void *arg);
/* How many lines were ever kept: a reader that has seen as many has missed none. */
size_t log_recent_kept(void);
/* True when this call may log now; counts suppressed lines. */
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
