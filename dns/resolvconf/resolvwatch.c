#include "dns/resolvconf/resolvwatch.h"

#include <string.h>

#include "base/core/log.h"
#include "base/os/fswatch.h"
#include "dns/resolvconf/resolvfile.h"

enum { DEBOUNCE_MS = 50, LOOK_MS = 30000, CALM_MS = 60000, DANGLING_MS = 1000, AGAIN_MS = 2000 };

/* A file that says more than resolv.conf does. */
struct resolvwatch_other {
	struct resolvwatch *watch;
	char *path, *folder; /* path "": there is none */
	struct fswatch *fswatch; /* NULL: its folder is missing or cannot be watched */
};

struct resolvwatch {
	struct loop *loop;
	struct resolvconf *keeper;
	char *path, *folder;
	const char *name; /* file name, within path */
	struct resolvwatch_other also; /* config.also */
	bool also_changed;
	struct resolvwatch_other target; /* of the link that was there */
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

static void watch_folder(struct resolvwatch *w);

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
		w->changed(w->arg); /* its nameservers may be new, though it cannot be written */
		if (!timer_active(w->soon))
			timer_start(w->soon, AGAIN_MS, 0);
		return;
	}
	w->failed = false;
	if (seen == RESOLVCONF_MENDED)
		on_mended(w, now);
	else if (seen == RESOLVCONF_READ && !mend)
		resolvwatch_leave(w, now);
	if (seen != RESOLVCONF_SAME) {
		watch_folder(w);
		w->changed(w->arg);
	}
	wait_for_target(w);
}

static char *
folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL    ? xstrdup(".")
		: slash == path ? xstrdup("/")
				: xstrndup(path, (size_t)(slash - path));
}

static void on_entry(void *arg, const char *name);
static void on_other(void *arg, const char *name);

static void
other_start(struct resolvwatch_other *o, const char *path)
{
	struct err err = {0};

	if (o->path == NULL || strcmp(o->path, path) != 0) {
		fswatch_stop(&o->fswatch);
		free(o->path);
		free(o->folder);
		o->path = xstrdup(path);
		o->folder = folder_of(path);
	}
	if (o->fswatch == NULL && path[0] != '\0')
		fswatch_start(&o->fswatch, o->watch->loop, o->folder, on_other, o, &err);
}

static void
other_stop(struct resolvwatch_other *o)
{
	fswatch_stop(&o->fswatch);
	free(o->path);
	free(o->folder);
}

static void
watch_folder(struct resolvwatch *w)
{
	auto_free char *target = resolvconf_target(w->keeper);
	struct err err = {0};

	if (w->fswatch == NULL &&
		fswatch_start(&w->fswatch, w->loop, w->folder, on_entry, w, &err) < 0)
		log_limited(LOG_LEVEL_WARN, 1, "dns",
			"resolv.conf is only looked at now and then: %s", err.text);
	other_start(&w->also, w->also.path);
	/* systemd-resolved's changes with what it learns from ours; its servers are in `also` */
	other_start(&w->target, target != NULL && !resolved_owns(target) ? target : "");
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
on_other(void *arg, const char *name)
{
	struct resolvwatch_other *o = arg;
	struct resolvwatch *w = o->watch;
	const char *slash = strrchr(o->path, '/');

	if (name == NULL)
		fswatch_stop(&o->fswatch);
	else if (slash == NULL || strcmp(name, slash + 1) != 0)
		return;
	w->also_changed |= o == &w->also;
	if (!timer_active(w->soon))
		timer_start(w->soon, w->debounce_ms, 0);
}

static void
on_look(void *arg)
{
	struct resolvwatch *w = arg;

	w->also_changed = w->also.path[0] != '\0';
	watch_folder(w);
	if (!timer_active(w->soon))
		resolvwatch_look(w);
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
	w->also.watch = w->target.watch = w;
	other_start(&w->also, config->also != NULL ? config->also : "");
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
	other_stop(&w->also);
	other_stop(&w->target);
	timer_free(&w->soon);
	timer_free(&w->look);
	free(w->folder);
	free(w->path);
	free(w);
}

void
resolvwatch_metrics(const struct resolvwatch *w, struct metrics *m)
{
	metric_counter(m, "edgeway_dns_resolvconf_conflicts_total",
		"Times that another program changed resolv.conf so often that it was left alone.",
		NULL, w != NULL ? w->conflicts : 0);
}

void
resolvwatch_state(const struct resolvwatch *w, struct buf *out)
{
	buf_printf(out, "\"mended\":%llu,\"left\":%s",
		w != NULL ? (unsigned long long)w->mended : 0,
		w != NULL && w->left ? "true" : "false");
}
