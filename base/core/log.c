#include "base/core/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2048 };

/* The parts that log; tests/lint/lint.py checks that there are no others. */
static const char *const parts[] = {"admin", "agent", "audit", "carrier", "config", "dns", "hub",
	"ingress", "iptables", "kubernetes", "lb", "log", "loop", "manifests", "meta", "seccomp",
	"test", "tracing", "tunnel", "web", "ws", NULL};
static _Atomic int part_levels[LOG_PARTS_MAX]; /* level + 1; 0: as log_level */
static _Atomic int log_level = LOG_LEVEL_INFO;
static _Atomic int log_most = LOG_LEVEL_INFO; /* the most verbose of log_level and all parts */
static _Atomic int log_format = LOG_FORMAT_TEXT;
static _Atomic unsigned log_lost; /* lines */
static struct {
	pthread_mutex_t lock;
	struct {
		char *text; /* the line, escaped */
		const char *part;
		char when[LOG_TIME_MAX];
		enum log_level level;
	} at[LOG_RECENT];
	size_t n; /* lines ever kept */
} recent = {.lock = PTHREAD_MUTEX_INITIALIZER};
static const char *const level_names[] = {"error", "warn", "info", "debug"};

void
log_setup(enum log_level level, enum log_format format)
{
	log_part_level("", level);
	atomic_store(&log_format, (int)format);
}

const char *const *
log_parts(void)
{
	return parts;
}

const char *
log_level_name(enum log_level level)
{
	return level_names[level];
}

static size_t
part_index(const char *part)
{
	size_t i = 0;

	while (parts[i] != NULL && strcmp(parts[i], part) != 0)
		i++;
	return i;
}

int
log_part_level(const char *part, enum log_level level)
{
	size_t at = part_index(part);
	int most = (int)level;

	if (part[0] != '\0' && parts[at] == NULL)
		return -ENOENT;
	if (part[0] == '\0') {
		atomic_store(&log_level, (int)level);
		for (size_t i = 0; parts[i] != NULL; i++)
			atomic_store(&part_levels[i], 0);
	} else {
		atomic_store(&part_levels[at], (int)level + 1);
		for (size_t i = 0; parts[i] != NULL; i++)
			most = MAX(most, (int)log_level_of(parts[i]));
	}
	atomic_store(&log_most, most);
	return 0;
}

enum log_level
log_level_of(const char *part)
{
	size_t at = part_index(part);
	int own = parts[at] != NULL ? atomic_load_explicit(&part_levels[at], memory_order_relaxed)
				    : 0;

	return (enum log_level)(
		own > 0 ? own - 1 : atomic_load_explicit(&log_level, memory_order_relaxed));
}

bool
log_enabled(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&log_most, memory_order_relaxed);
}

enum log_format
log_format_now(void)
{
	return (enum log_format)atomic_load_explicit(&log_format, memory_order_relaxed);
}

size_t
log_time(char to[LOG_TIME_MAX])
{
	const size_t size = LOG_TIME_MAX;
	struct timespec now;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = strftime(to, size, "%Y-%m-%dT%H:%M:%S", &tm);
	return n + (size_t)snprintf(to + n, size - n, ".%03ldZ", now.tv_nsec / 1000000);
}

/* Control characters would let a peer forge lines; JSON needs quotes and backslashes escaped
 * too. */
static size_t
log_escape(char *to, size_t size, const char *from, bool json)
{
	size_t n = 0;

	for (; *from != '\0' && n + 7 < size; from++) {
		unsigned char c = (unsigned char)*from;

		if (c < 0x20 || c == 0x7f)
			n += (size_t)snprintf(to + n, size - n, json ? "\\u%04x" : "\\x%02x", c);
		else if (json && (c == '"' || c == '\\')) {
			to[n++] = '\\';
			to[n++] = (char)c;
		} else
			to[n++] = (char)c;
	}
	to[n] = '\0';
	return n;
}

char *
log_clean(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
	for (char *p = to; *p != '\0'; p++)
		if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\')
			*p = '?';
	return to;
}

/* A pipe that nobody reads must block only the log, not the program. */
static bool
log_taken(void)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

	return poll(&p, 1, 0) != 0;
}

static void
keep_recent(enum log_level level, const char *part, const char *when, const char *text)
{
	size_t at;

	if (level > LOG_LEVEL_INFO || strcmp(part, "audit") == 0)
		return;
	pthread_mutex_lock(&recent.lock);
	at = recent.n++ % LOG_RECENT;
	free(recent.at[at].text);
	recent.at[at].text = xstrdup(text);
	recent.at[at].part = part;
	recent.at[at].level = level;
	memcpy(recent.at[at].when, when, LOG_TIME_MAX);
	pthread_mutex_unlock(&recent.lock);
}

void
log_recent(log_event_fn *fn, void *arg)
{
	size_t from;

	pthread_mutex_lock(&recent.lock);
	from = recent.n > LOG_RECENT ? recent.n - LOG_RECENT : 0;
	for (size_t i = from; i < recent.n; i++) {
		size_t at = i % LOG_RECENT;

		fn(arg,
			&(struct log_event){recent.at[at].when, level_names[recent.at[at].level],
				recent.at[at].part, recent.at[at].text, i});
	}
	pthread_mutex_unlock(&recent.lock);
}

size_t
log_recent_kept(void)
{
	size_t n;

	pthread_mutex_lock(&recent.lock);
	n = recent.n;
	pthread_mutex_unlock(&recent.lock);
	return n;
}

void
log_line(enum log_level level, const char *part, const char *fmt, ...)
{
	bool json = log_format_now() == LOG_FORMAT_JSON;
	char when[LOG_TIME_MAX], said[LINE_MAX_BYTES], safe[LINE_MAX_BYTES],
		line[LINE_MAX_BYTES + 160];
	va_list ap;
	int n;
	unsigned lost;
	ssize_t done;

	if (level > log_level_of(part))
		return;
	log_time(when);
	va_start(ap, fmt);
	vsnprintf(said, sizeof said, fmt, ap);
	va_end(ap);
	log_escape(safe, sizeof safe, said, false);
	keep_recent(level, part, when, safe);
	if (!log_taken()) {
		atomic_fetch_add(&log_lost, 1);
		return;
	}
	lost = atomic_exchange(&log_lost, 0);
	if (lost > 0)
		log_line(LOG_LEVEL_WARN, "log", "%u lines were lost: nobody took them", lost);
	if (json)
		log_escape(safe, sizeof safe, said, true);
	if (json)
		n = snprintf(line, sizeof line,
			"{\"time\":\"%s\",\"level\":\"%s\",\"part\":\"%s\",\"msg\":\"%s\"}\n", when,
			level_names[level], part, safe);
	else
		n = snprintf(line, sizeof line, "%s %-5s %s: %s\n", when, level_names[level], part,
			safe);
	done = write(STDERR_FILENO, line, MIN((size_t)n, sizeof line - 1));
	(void)done; /* the error cannot be reported anywhere */
}

bool
log_limit_pass(struct log_limit *limit, unsigned per_minute, const char *part)
{
	uint64_t minute = mono_ms() / 60000, seen = atomic_load(&limit->window);
	unsigned held;

	if (seen != minute && atomic_compare_exchange_strong(&limit->window, &seen, minute)) {
		atomic_store(&limit->count, 0);
		held = atomic_exchange(&limit->held, 0);
		if (held > 0)
			log_line(LOG_LEVEL_WARN, part, "%u lines like the next one were held back",
				held);
	}
	if (atomic_fetch_add(&limit->count, 1) < per_minute)
		return true;
	atomic_fetch_add(&limit->held, 1);
	return false;
}
