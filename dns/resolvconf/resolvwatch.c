#include "dns/resolvconf/resolvwatch.h"

#include <string.h>

#include "base/core/log.h"
#include "base/os/fswatch.h"

enum { DEBOUNCE_MS = 50, LOOK_MS = 30000, CALM_MS = 60000, DANGLING_MS = 1000 };

struct resolvwatch {
	struct loop *loop;
	struct resolvconf *keeper;
	char *path, *folder;
	const char *name; /* file name, within path */
	char *also, *also_folder; /* "" if there is none */
	bool also_changed;
	struct fswatch *also_watch; /* NULL: its folder is missing or cannot be watched */
	loop_fn *changed;
	void *arg;
	uint64_t debounce_ms, calm_ms;
	struct fswatch *fswatch; /* NULL: the folder cannot be watched */
	struct timer *soon, *look;
	uint64_t first_ms; /* when the first repair of this minute was */
	unsigned times;
	bool left; /* to the other program, until this minute is over */
	bool failed; /* already logged */
	uint64_t mended, conflicts;
};

/* The minute begins with the first repair, and again when the file is left to the other program. */
static void
count_minutes(struct resolvwatch *w, uint64_t now)
{
	if (w->times == 0 || now < w->first_ms + w->calm_ms)
		return;
	w->times = 0;
	w->left = false;
}

static void
on_mended(struct resolvwatch *w, uint64_t now)
{
	if (w->times++ == 0)
		w->first_ms = now;
	w->mended++;
	log_info("dns",
		"another program changed resolv.conf: our lines are back, its nameservers are used "
		"path=%s",
		w->path);
}

static void
resolvwatch_leave(struct resolvwatch *w, uint64_t now)
{
	if (w->left)
		return;
	w->left = true;
	w->first_ms = now;
	w->conflicts++;
	log_warn("dns",
		"another program keeps changing resolv.conf: it is left alone for now, names of "
		"the "
		"cluster are not found through it; stop that program, or set dns.manageResolvConf: "
		"false path=%s",
		w->path);
	timer_start(w->soon, w->calm_ms, 0);
}

/* A node without nameservers cannot wait for the next look. */
static void
wait_for_target(struct resolvwatch *w)
{
	if (resolvconf_dangles(w->keeper) && !timer_active(w->soon))
		timer_start(w->soon, DANGLING_MS, 0);
}

static void
resolvwatch_look(void *arg)
{
	struct resolvwatch *w = arg;
	uint64_t now = loop_now_ms(w->loop);
	struct err err = {0};
	bool mend;
	int seen;

	if (w->also_changed) {
		w->also_changed = false;
		w->changed(w->arg);
	}
	count_minutes(w, now);
	mend = w->times < RESOLVWATCH_TIMES;
	seen = resolvconf_check(w->keeper, mend, &err);
	if (seen < 0) {
		if (!w->failed)
			log_warn("dns", "%s", err.text);
		w->failed = true;
		return;
	}
	w->failed = false;
	if (seen == RESOLVCONF_MENDED)
		on_mended(w, now);
	else if (seen == RESOLVCONF_READ && !mend)
		resolvwatch_leave(w, now);
	if (seen != RESOLVCONF_SAME)
		w->changed(w->arg);
	wait_for_target(w);
}

static void on_entry(void *arg, const char *name);
static void on_also(void *arg, const char *name);

static void
watch_folder(struct resolvwatch *w)
{
	struct err err = {0};

	if (w->fswatch == NULL &&
		fswatch_start(&w->fswatch, w->loop, w->folder, on_entry, w, &err) < 0)
		log_limited(LOG_LEVEL_WARN, 1, "dns",
			"resolv.conf is only looked at now and then: %s", err.text);
	if (w->also_watch == NULL && w->also[0] != '\0')
		fswatch_start(&w->also_watch, w->loop, w->also_folder, on_also, w, &err);
}

/* While the file is left to the other program, the timer runs until that ends. */
static void
on_entry(void *arg, const char *name)
{
	struct resolvwatch *w = arg;

	if (name == NULL)
		fswatch_stop(&w->fswatch); /* the next check starts it again */
	else if (strcmp(name, w->name) != 0)
		return;
	if (!timer_active(w->soon))
		timer_start(w->soon, w->debounce_ms, 0);
}

static void
on_also(void *arg, const char *name)
{
	struct resolvwatch *w = arg;

	if (name == NULL)
		fswatch_stop(&w->also_watch);
	else if (strcmp(name, strrchr(w->also, '/') + 1) != 0)
		return;
	w->also_changed = true;
	if (!timer_active(w->soon))
		timer_start(w->soon, w->debounce_ms, 0);
}

static void
on_look(void *arg)
{
	struct resolvwatch *w = arg;

	w->also_changed = w->also[0] != '\0';
	watch_folder(w);
	if (!timer_active(w->soon))
		resolvwatch_look(w);
}

static char *
folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL    ? xstrdup(".")
		: slash == path ? xstrdup("/")
				: xstrndup(path, (size_t)(slash - path));
}

void
resolvwatch_start(struct resolvwatch **out, const struct resolvwatch_config *config)
{
	struct resolvwatch *w = xcalloc(1, sizeof *w);
	uint64_t look_ms = config->look_ms > 0 ? config->look_ms : LOOK_MS;
	const char *slash = strrchr(config->path, '/');

	w->loop = config->loop;
	w->keeper = config->keeper;
	w->changed = config->changed;
	w->arg = config->arg;
	w->debounce_ms = config->debounce_ms > 0 ? config->debounce_ms : DEBOUNCE_MS;
	w->calm_ms = config->calm_ms > 0 ? config->calm_ms : CALM_MS;
	w->path = xstrdup(config->path);
	w->name = slash != NULL ? w->path + (slash - config->path) + 1 : w->path;
	w->folder = folder_of(config->path);
	w->also = xstrdup(config->also != NULL ? config->also : "");
	w->also_folder = folder_of(w->also);
	w->soon = timer_new(w->loop, resolvwatch_look, w);
	w->look = timer_new(w->loop, on_look, w);
	watch_folder(w);
	timer_start(w->look, look_ms, look_ms);
	wait_for_target(w);
	*out = w;
}

void
resolvwatch_stop(struct resolvwatch **out)
{
	struct resolvwatch *w = take_ptr(out);

	if (w == NULL)
		return;
	fswatch_stop(&w->fswatch);
	fswatch_stop(&w->also_watch);
	timer_free(&w->soon);
	timer_free(&w->look);
	free(w->folder);
	free(w->also);
	free(w->also_folder);
	free(w->path);
	free(w);
}

void
resolvwatch_metrics(const struct resolvwatch *w, struct metrics *m)
{
	metric_counter(m, "edgeway_dns_resolvconf_conflicts_total",
		"Times that another program changed resolv.conf so often that it was left alone.",
		NULL, w->conflicts);
}

void
resolvwatch_state(const struct resolvwatch *w, struct buf *out)
{
	buf_printf(out, "\"mended\":%llu,\"left\":%s", (unsigned long long)w->mended,
		w->left ? "true" : "false");
}
