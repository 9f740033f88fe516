#include "dns/resolvwatch.h"

#include <string.h>

#include "base/fswatch.h"
#include "base/log.h"

enum { SETTLE_MS = 200, PAUSE_MS = 2000 };

struct resolvwatch {
	struct fswatch *folder; /* NULL: cannot be watched */
	struct timer *timer;
	struct loop *loop;
	const char *name; /* in path */
	char *path;
	uint64_t called_ms;
	loop_fn *fn;
	void *arg;
};

static void
on_timer(void *arg)
{
	struct resolvwatch *w = arg;

	w->called_ms = loop_now_ms(w->loop);
	w->fn(w->arg);
}

static void
on_entry(void *arg, const char *name)
{
	struct resolvwatch *w = arg;
	uint64_t since = loop_now_ms(w->loop) - w->called_ms;

	if ((name != NULL && strcmp(name, w->name) != 0) || timer_active(w->timer))
		return;
	timer_start(w->timer, since < PAUSE_MS ? PAUSE_MS - since : SETTLE_MS, 0);
}

static char *
folder_of(const char *path, const char *name)
{
	size_t len = (size_t)(name - path);

	if (len == 0)
		return xstrdup(".");
	return xasprintf("%.*s", (int)MAX(len - 1, (size_t)1), path);
}

void
resolvwatch_start(
	struct resolvwatch **out, struct loop *loop, const char *path, loop_fn *fn, void *arg)
{
	const char *slash = strrchr(path, '/');
	auto_free char *folder = NULL;
	struct resolvwatch *w;
	struct err err;

	if (*out != NULL)
		return;
	w = xcalloc(1, sizeof *w);
	w->loop = loop;
	w->path = xstrdup(path);
	w->name = slash != NULL ? w->path + (slash - path) + 1 : w->path;
	w->fn = fn;
	w->arg = arg;
	w->timer = timer_new(loop, on_timer, w);
	folder = folder_of(w->path, w->name);
	if (fswatch_start(&w->folder, loop, folder, on_entry, w, &err) < 0)
		log_warn("dns", "what others write to resolv.conf is not followed: %s", err.text);
	*out = w;
}

void
resolvwatch_stop(struct resolvwatch **out)
{
	struct resolvwatch *w = take_ptr(out);

	if (w == NULL)
		return;
	fswatch_stop(&w->folder);
	timer_free(&w->timer);
	free(w->path);
	free(w);
}
